// Rings of io_uring, with the features that this kernel supports.
//
// Thread-safety: a Ring is for one thread at a time. RingPool is thread-safe.
// Errors: TZE-ENV-006 if the system is short of a resource, TZE-AVL-001 if it refuses a ring for another reason.
#pragma once

#include <liburing.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "tzmark/io.h"

namespace tzmark {

class Ring {
 public:
  enum class Use {
    kAnyThread,  // one thread at a time
    kOneThread,  // only the thread that creates it, which saves the kernel some work
    kPolled,     // a kernel thread polls for submissions, so that submitting needs no system call
  };

  // shared: a polled ring whose kernel thread serves this ring, too. It must outlive this ring.
  Ring(unsigned entries, Use use, const Ring* shared = nullptr);
  // Drains the ring.
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  io_uring* get() { return &ring_; }
  bool is_polled() const { return (ring_.flags & IORING_SETUP_SQPOLL) != 0; }
  // Returns an empty entry, which the next submission includes; null if the ring is broken. REQUIRES: fewer than
  // entries are unsubmitted.
  io_uring_sqe* next_entry();
  unsigned unsubmitted() const { return ::io_uring_sq_ready(&ring_); }
  // Submits all entries. If the kernel is short of memory, it leaves some for the next call. Returns false if the call
  // fails or the kernel has refused too often: the ring is then permanently broken.
  bool submit();
  // Submits, and blocks until there is something to reap; may return early.
  bool submit_and_wait();
  bool is_broken() const { return broken_; }
  // Calls completed(user data, result) for each available completion, and returns their number. The callback may fill
  // new entries.
  template <typename Completed>
  unsigned reap(Completed&& completed) {
    std::array<io_uring_cqe*, 32> batch{};
    const unsigned count = ::io_uring_peek_batch_cqe(&ring_, batch.data(), batch.size());
    completed_ += count;
    for (unsigned i = 0; i < count; ++i) completed(batch[i]->user_data, batch[i]->res);
    ::io_uring_cq_advance(&ring_, count);
    return count;
  }
  // Blocks until all submitted entries complete, even if the ring is broken, and calls completed for each: afterwards
  // the kernel no longer uses the caller's memory. Unsubmitted entries never start. If waiting fails, aborts the
  // process with a message, since memory that the kernel may still write to must not be reused.
  template <typename Completed>
  void drain(Completed&& completed) {
    for (unsigned failures = 0; taken() > 0;) {
      if (reap(completed) == 0) look_again(failures);
    }
  }

 private:
  // The number of entries that the kernel may be processing: the thread of a polled ring takes what it is shown.
  std::uint64_t taken() const {
    return begun_ - completed_ - (is_polled() ? ring_.sq.sqe_tail - *ring_.sq.ktail : unsubmitted());
  }
  bool is_entered(int result);
  void look_again(unsigned& failures);

  io_uring ring_{};
  std::uint64_t begun_ = 0;      // entries
  std::uint64_t completed_ = 0;  // of those
  unsigned refusals_ = 0;        // by the kernel, consecutive
  bool broken_ = false;
};

// Returns a ring; null if the system is short of a resource.
std::unique_ptr<Ring> ring_or_none(unsigned entries, Ring::Use use, const Ring* shared = nullptr);

// Returns the reason why this machine refuses such a ring; empty if it does not.
std::string why_no_ring(Ring::Use use);

// The I/O call of an entry.
struct RingCall {
  Transfer::Kind kind = Transfer::Kind::kRead;
  int descriptor = -1;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;  // REQUIRES: below 2 GiB
  std::uint64_t offset = 0;
};
// registered_memory: the index of the registered memory that contains the call's memory, or -1.
void fill_entry(io_uring_sqe& entry, const RingCall& call, int registered_memory = -1);

// How often a call is tried in the ring before it is made by pread or pwrite.
inline constexpr unsigned kRingAttempts = 3;
// Returns whether a completion reports a shortage instead of a result: no worker, no memory, or an interruption.
// result: a negative errno.
bool is_refusal(int result);
// Makes a call by pread or pwrite. Returns the number of bytes, or a negative errno.
int move_by_system_call(const RingCall& call);
// Does so because the ring could not, and counts it (tzmark/shortage.h).
int move_in_place(const RingCall& call);

// Rings for threads that make a single call and wait for it.
class RingPool {
 public:
  // Makes one call, by pread or pwrite if the ring refuses it. Returns the number of bytes, or a negative errno. The
  // kernel no longer uses the call's memory then.
  int run(const RingCall& call);

 private:
  // Returns none if there is no ring, or if it broke before the call was submitted.
  std::optional<int> run_in_ring(const RingCall& call);
  std::unique_ptr<Ring> take();

  std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> rings_;  // not in use
};

}  // namespace tzmark
