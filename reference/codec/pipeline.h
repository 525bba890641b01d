// Runs pieces of fixed size through three stages on several threads.
//
// A job hands out pieces in order. Each piece has a buffer of its own and passes through
//   produce  any thread, any order: read it, decrypt it, hash what can be hashed on its own
//   chain    in order within a chain, one at a time there: what depends on the piece before, such as SHA-256
//   consume  any thread, any order: encrypt it, write it, hand it out
// A piece that continues the one before it belongs to its chain; any other starts a new chain. So one huge tensor uses
// every core for all but its SHA-256, and many tensors use every core for that too.
//
// Buffers are made once and reused; a piece costs three short locks. The first error in the order of pieces wins:
// pieces before the one that failed are finished, later ones are dropped.
//
// Job requires: a type Piece, default-constructible, with a member bool continues; and
//   bool next(Piece&)                        called under the lock; false at the end
//   void produce(Piece&, std::span<std::byte> buffer), chain and consume alike.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tzmark/error.h"

namespace tzmark {

inline constexpr std::size_t kDefaultPieceBytes = 2 << 20;

struct PipelineOptions {
  unsigned threads = 0;  // 0: as many as the machine has cores
  std::size_t piece_bytes = kDefaultPieceBytes;

  // Throws kUsage for a size of pieces that is too small to hold anything.
  void check() const;
  unsigned thread_count() const { return threads != 0 ? threads : std::max(1U, std::thread::hardware_concurrency()); }
};

inline void PipelineOptions::check() const {
  constexpr std::size_t kPieceBytesMin = 4096;
  if (piece_bytes < kPieceBytesMin) {
    throw Error(ErrorCode::kUsage, "pieces have at least " + std::to_string(kPieceBytesMin) + " bytes");
  }
}

template <typename Job>
class Pipeline {
 public:
  Pipeline(Job& job, const PipelineOptions& options, std::size_t buffer_bytes)
      : job_(job), thread_count_(options.thread_count()), slots_(2 * thread_count_ + 1), buffer_bytes_(buffer_bytes) {}

  // Returns when all pieces are through. Throws the first error.
  void run() {
    std::vector<std::jthread> helpers;
    helpers.reserve(thread_count_ - 1);
    for (unsigned i = 1; i < thread_count_; ++i) helpers.emplace_back([this] { work(); });
    work();
    helpers.clear();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  enum class State { kFree, kProducing, kProduced, kChaining, kChained, kConsuming };
  struct Slot {
    State state = State::kFree;
    std::uint64_t number = 0;
    typename Job::Piece piece{};
    std::unique_ptr<std::byte[]> buffer;  // made at first use, so that small jobs stay small
  };

  Slot& slot(std::uint64_t number) { return slots_[number % slots_.size()]; }
  bool failed_before(std::uint64_t number) const { return error_ && error_number_ < number; }

  // A piece may chain when the piece before it has, unless it starts a chain.
  bool may_chain(const Slot& s) {
    if (s.state != State::kProduced) return false;
    if (!s.piece.continues || s.number == oldest_) return true;
    const Slot& before = slot(s.number - 1);
    return before.state >= State::kChained || before.state == State::kFree;
  }

  struct Task {
    Slot* slot;
    State during, after;
  };

  // What this thread should do next: what unblocks others first. Called with the lock held.
  std::optional<Task> choose() {
    while (oldest_ < next_ && slot(oldest_).state == State::kFree) ++oldest_;
    for (std::uint64_t n = oldest_; n < next_; ++n) {
      Slot& s = slot(n);
      if (may_chain(s)) return Task{&s, State::kChaining, State::kChained};
      if (s.state == State::kChained) return Task{&s, State::kConsuming, State::kFree};
    }
    if (!exhausted_ && !error_ && next_ - oldest_ < slots_.size()) {
      Slot& s = slot(next_);
      try {
        exhausted_ = !job_.next(s.piece);
      } catch (...) {
        fail(next_);
        return std::nullopt;
      }
      if (!exhausted_) {
        s.number = next_++;
        return Task{&s, State::kProducing, State::kProduced};
      }
    }
    return std::nullopt;
  }

  void fail(std::uint64_t number) {
    if (!error_ || number < error_number_) {
      error_ = std::current_exception();
      error_number_ = number;
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      const std::optional<Task> task = choose();
      if (!task) {
        if (oldest_ == next_ && (exhausted_ || error_)) {
          changed_.notify_all();
          return;
        }
        changed_.wait(lock);
        continue;
      }
      Slot& s = *task->slot;
      s.state = task->during;
      bool dropped = failed_before(s.number);
      if (!dropped) {
        lock.unlock();
        try {
          perform(s);
          lock.lock();
        } catch (...) {
          lock.lock();
          fail(s.number);
          dropped = true;
        }
      }
      // What has failed or is dropped ends here; its successors in the chain see it gone and are dropped in turn.
      s.state = dropped ? State::kFree : task->after;
      if (s.state == State::kFree) s.piece = {};
      changed_.notify_all();
    }
  }

  void perform(Slot& s) {
    if (!s.buffer) s.buffer.reset(new std::byte[buffer_bytes_]);
    const std::span<std::byte> buffer(s.buffer.get(), buffer_bytes_);
    switch (s.state) {
      case State::kProducing:
        return job_.produce(s.piece, buffer);
      case State::kChaining:
        return job_.chain(s.piece, buffer);
      default:
        return job_.consume(s.piece, buffer);
    }
  }

  Job& job_;
  const unsigned thread_count_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Slot> slots_;  // piece n is in slot n % size
  const std::size_t buffer_bytes_;
  std::uint64_t oldest_ = 0;  // the first piece that is not through
  std::uint64_t next_ = 0;    // the number of the next new piece
  bool exhausted_ = false;
  std::exception_ptr error_;
  std::uint64_t error_number_ = 0;
};

}  // namespace tzmark
