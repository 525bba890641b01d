// Rings of io_uring: made and gone with the object, with what this kernel allows.
//
// A Ring is for one thread at a time. RingPool may be used from any threads.
// Errors: TZE-ENV-006 if the system refuses a ring; TZE-ENV-006 for failures of a ring as a whole.
#pragma once

#include <liburing.h>

#include <array>
#include <memory>
#include <mutex>
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
  ~Ring() { ::io_uring_queue_exit(&ring_); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  io_uring* get() { return &ring_; }
  // An empty entry, which the next submission takes with it. REQUIRES: fewer than entries are unsubmitted.
  io_uring_sqe& next_entry();
  unsigned unsubmitted() const { return ::io_uring_sq_ready(&ring_); }
  // Hands all entries to the kernel. Some may be left if it is short of memory: the next call takes them.
  void submit();
  // The same, and returns when there is something to reap, or somewhat earlier.
  void submit_and_wait();
  // Calls completed(user data, result) for each completion that is there, and returns how many these were. It may fill
  // new entries.
  template <typename Completed>
  unsigned reap(Completed&& completed) {
    std::array<io_uring_cqe*, 32> batch{};
    const unsigned count = ::io_uring_peek_batch_cqe(&ring_, batch.data(), batch.size());
    for (unsigned i = 0; i < count; ++i) completed(batch[i]->user_data, batch[i]->res);
    ::io_uring_cq_advance(&ring_, count);
    return count;
  }

 private:
  io_uring ring_{};
};

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

// Rings for callers that come from any thread and wait for their one transfer.
class RingPool {
 public:
  // Makes one call. Returns how many bytes moved, or the errno, negative.
  int run(const RingCall& call);

 private:
  std::unique_ptr<Ring> take();

  std::mutex mutex_;
  std::vector<std::unique_ptr<Ring>> rings_;  // those that nobody uses now
};

}  // namespace tzmark
