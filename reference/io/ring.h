// Rings of io_uring: made and gone with the object, with what this kernel allows.
//
// A Ring is for one thread at a time. RingPool may be used from any threads.
// Errors: TZE-ENV-006 if the system is short of what a ring takes, TZE-AVL-001 if it gives none for another reason.
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
    kAnyThread,  // one thread after the other
    kOneThread,  // none but the one that makes it: the kernel then leaves out what would only be for others
    kPolled,     // a thread of the kernel takes what is submitted, so that submitting is no system call
  };

  // shared: a polled ring, whose thread of the kernel serves this one too. Must not be gone before.
  Ring(unsigned entries, Use use, const Ring* shared = nullptr);
  // Drains it.
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  io_uring* get() { return &ring_; }
  bool is_polled() const { return (ring_.flags & IORING_SETUP_SQPOLL) != 0; }
  // An empty entry, which the next submission takes with it; none if the ring is broken. REQUIRES: fewer than entries
  // are unsubmitted.
  io_uring_sqe* next_entry();
  unsigned unsubmitted() const { return ::io_uring_sq_ready(&ring_); }
  // Hands all entries to the kernel. Some may be left if it is short of memory: the next call takes them. Returns false
  // if the kernel cannot be entered, or has refused too often: the ring is then broken for good.
  bool submit();
  // The same, and returns when there is something to reap, or somewhat earlier.
  bool submit_and_wait();
  bool is_broken() const { return broken_; }
  // Calls completed(user data, result) for each completion that is there, and returns how many these were. It may fill
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
  // Waits for all that the kernel has taken, broken or not, and calls completed for each: afterwards the kernel uses no
  // memory of the callers any more. Entries that it has not taken never begin. Ends the process with a message if the
  // kernel cannot be waited for: memory that it may still write to must not be used for anything else.
  template <typename Completed>
  void drain(Completed&& completed) {
    for (unsigned failures = 0; taken() > 0;) {
      if (reap(completed) == 0) look_again(failures);
    }
  }

 private:
  // How many entries the kernel may be working on.
  std::uint64_t taken() const { return begun_ - completed_ - (is_polled() ? 0 : unsubmitted()); }
  bool is_entered(int result);
  void look_again(unsigned& failures);

  io_uring ring_{};
  std::uint64_t begun_ = 0;      // entries
  std::uint64_t completed_ = 0;  // of those
  unsigned refusals_ = 0;        // by the kernel, one after the other
  bool broken_ = false;
};

// A ring, or none if the system is short of what it takes.
std::unique_ptr<Ring> ring_or_none(unsigned entries, Ring::Use use, const Ring* shared = nullptr);

// Why this machine gives us no such ring; empty if it does.
std::string why_no_ring(Ring::Use use);

// What an entry asks for.
struct RingCall {
  Transfer::Kind kind = Transfer::Kind::kRead;
  int descriptor = -1;
  std::byte* memory = nullptr;
  std::size_t bytes = 0;  // REQUIRES: below 2 GiB
  std::uint64_t offset = 0;
};
// registered_memory: the number of the registered memory that holds the call's, or -1.
void fill_entry(io_uring_sqe& entry, const RingCall& call, int registered_memory = -1);

// A call is made in the ring so often; then in place.
inline constexpr unsigned kRingAttempts = 3;
// Whether a completion says nothing about the file: the kernel had no worker, no memory or no time for the call.
// result: an errno, negative.
bool is_refusal(int result);
// Makes a call by pread or pwrite, and counts it (tzmark/shortage.h). Returns how many bytes moved, or the errno,
// negative.
int move_in_place(const RingCall& call);

// Rings for callers that come from any thread and wait for their one transfer.
class RingPool {
 public:
  // Makes one call, in place if rings refuse it. Returns how many bytes moved, or the errno, negative. The kernel then
  // has let go of the call's memory.
  int run(const RingCall& call);

 private:
  // Nothing if there is no ring, or if it broke before the kernel took the call.
  std::optional<int> run_in_ring(const RingCall& call);
  std::unique_ptr<Ring> take();

  std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> rings_;  // those that nobody uses now
};

}  // namespace tzmark
