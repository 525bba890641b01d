// Finds a short sequence after which something fails; see short_sequence.h.
#include "runner/short_sequence.h"

#include <algorithm>
#include <numeric>

namespace tzmark::conformance {
namespace {

using Steps = std::vector<std::size_t>;

class SequenceSearch {
 public:
  SequenceSearch(std::size_t count, const FailsAfter& fails_after, std::chrono::nanoseconds elapsed_max)
      : count_(count), fails_after_(fails_after), end_(std::chrono::steady_clock::now() + elapsed_max) {}

  ShortSequence run() {
    std::size_t passing = 0;
    std::size_t failing = 1;
    while (!fails(suffix(failing))) {
      if (late_) return {suffix(count_), false};
      if (failing == count_) return {};
      passing = failing;
      failing = std::min(2 * failing, count_);
    }
    while (failing - passing > 1 && !late_) {
      const std::size_t middle = passing + (failing - passing) / 2;
      (fails(suffix(middle)) ? failing : passing) = middle;
    }
    // Without its first step, the suffix passes: that one is needed.
    Steps needed = suffix(failing);
    if (needed.size() > 1 && fails({needed.front()})) needed = {needed.front()};
    if (!late_) leave_out(needed);
    return {needed, !late_};
  }

 private:
  Steps suffix(std::size_t length) const {
    Steps steps(length);
    std::iota(steps.begin(), steps.end(), count_ - length);
    return steps;
  }

  bool fails(const Steps& steps) {
    late_ = late_ || std::chrono::steady_clock::now() >= end_;
    return !late_ && fails_after_(steps);
  }

  // Leaves out runs of steps, long ones first, but never the first step.
  void leave_out(Steps& needed) {
    for (std::size_t run = needed.size() / 2; run > 0 && !late_;) {
      bool shorter = false;
      for (std::size_t at = 1; at < needed.size() && !late_;) {
        Steps rest(needed.begin(), needed.begin() + static_cast<std::ptrdiff_t>(at));
        const std::size_t end = std::min(at + run, needed.size());
        rest.insert(rest.end(), needed.begin() + static_cast<std::ptrdiff_t>(end), needed.end());
        if (fails(rest)) {
          needed = std::move(rest);
          shorter = true;
        } else {
          at = end;
        }
      }
      if (run == 1 && !shorter) return;
      run = std::max<std::size_t>(run / 2, 1);
    }
  }

  std::size_t count_;
  const FailsAfter& fails_after_;
  std::chrono::steady_clock::time_point end_;
  bool late_ = false;
};

}  // namespace

ShortSequence find_short_sequence(std::size_t count, const FailsAfter& fails_after,
                                  std::chrono::nanoseconds elapsed_max) {
  return SequenceSearch(count, fails_after, elapsed_max).run();
}

}  // namespace tzmark::conformance
