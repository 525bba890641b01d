// The chain stage of jobs whose pieces hold tensors: hashes parts of large tensors and whole small ones side by side.
#pragma once

#include <algorithm>
#include <exception>
#include <span>
#include <vector>

#include "codec/pipeline.h"
#include "tzmark/digest.h"

namespace tzmark {

// Hashes the tensors of the steps. Of several errors of a step, the first in the order of its tensors is kept, and the
// tensors before it are finished. Job has:
//   Small                                  what is known of one small tensor until it is hashed; reused
//   open_small(small, step, tensor, parts) adds what is to be hashed
//   finish_small(small, step)              after its hash
//   add_part(step, parts), finish_part(step)   the same for a part of a large tensor
template <typename Job, typename Piece>
class ChainStage {
 public:
  using Step = ChainStep<Piece>;

  // keep_moving: of the pipeline; may be empty.
  ChainStage(Job& job, std::span<Step> steps, const KeepMoving& keep_moving)
      : job_(job), steps_(steps), keep_moving_(keep_moving), small_(std::min(count_small(steps), kSmallMax)) {
    // A tensor has up to two hashes.
    parts_.reserve(2 * (steps.size() + small_.size()));
    if (keep_moving_) parts_of_step_.reserve(parts_.capacity());
  }

  void run() {
    for (Step& step : steps_) {
      if (step.piece->large) {
        guarded(step, [&] { job_.add_part(step, parts_); });
      } else {
        add_run(step);
      }
    }
    flush();
    for (Step& step : steps_) {
      if (step.piece->large) guarded(step, [&] { job_.finish_part(step); });
    }
  }

 private:
  struct Open {
    typename Job::Small tensor{};
    Step* step = nullptr;
  };
  // So many fill the lanes of SHA-256 even if their lengths differ, and bound the memory for runs of tiny tensors.
  static constexpr std::size_t kSmallMax = 64;

  template <typename Action>
  static void guarded(Step& step, Action&& action) {
    if (step.error) return;
    try {
      action();
    } catch (...) {
      step.error = std::current_exception();
    }
  }

  static std::size_t count_small(std::span<const Step> steps) {
    std::size_t count = 0;
    for (const Step& step : steps) count += step.piece->large ? 0 : step.piece->count;
    return count;
  }

  void add_run(Step& step) {
    const Piece& piece = *step.piece;
    for (std::size_t i = piece.first; i < piece.first + piece.count && !step.error; ++i) {
      if (open_count_ == small_.size()) flush();
      Open& open = small_[open_count_];
      open.step = &step;
      std::exception_ptr error;
      try {
        job_.open_small(open.tensor, step, i, parts_);
        ++open_count_;
      } catch (...) {
        error = std::current_exception();
      }
      if (!error) continue;
      flush();
      if (!step.error) step.error = error;
    }
  }

  // Where a step of a part begins: each has its share of all steps, so that long and short parts end together, and
  // whole blocks.
  static std::size_t bound(std::size_t bytes, std::size_t step, std::size_t steps) {
    constexpr std::size_t kBlockBytes = 64;
    return step == steps ? bytes : bytes / steps * step / kBlockBytes * kBlockBytes;
  }

  void hash() {
    if (!keep_moving_ || parts_.empty()) return update_side_by_side(parts_);
    // What a core with lanes hashes in about a quarter of a millisecond.
    constexpr std::size_t kStepBytes = 1 << 20;
    std::size_t total = 0;
    for (const Sha256Part& part : parts_) total += part.bytes.size();
    const std::size_t steps = std::max<std::size_t>(1, total / kStepBytes);
    for (std::size_t step = 0; step < steps; ++step) {
      if (step > 0) keep_moving_();
      parts_of_step_.clear();
      for (const auto& [hash, bytes] : parts_) {
        const std::size_t begin = bound(bytes.size(), step, steps), end = bound(bytes.size(), step + 1, steps);
        parts_of_step_.push_back({hash, bytes.subspan(begin, end - begin)});
      }
      update_side_by_side(parts_of_step_);
    }
  }

  void flush() {
    hash();
    parts_.clear();
    for (Open& open : std::span(small_).first(open_count_)) {
      guarded(*open.step, [&] { job_.finish_small(open.tensor, *open.step); });
    }
    open_count_ = 0;
  }

  Job& job_;
  const std::span<Step> steps_;
  const KeepMoving& keep_moving_;
  std::vector<Open> small_;
  std::size_t open_count_ = 0;
  std::vector<Sha256Part> parts_, parts_of_step_;
};

}  // namespace tzmark
