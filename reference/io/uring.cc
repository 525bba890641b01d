// The io_uring path and its variants. Each queue has a ring of its own with many transfers in flight; single calls use
// a ring from a pool, and wait.
//   uring          uses the page cache
//   uring-direct   bypasses it (O_DIRECT), as the direct path does; single writes of parts of pages are made by pwrite
//   uring-sqpoll   the same, with a kernel thread that polls for submissions. One thread serves all queues of a file,
//                  and keeps a core busy while there is work and shortly after. Single calls do not use it, since they
//                  would also wait for that thread.
// If the system refuses a ring for lack of memory, descriptors or kernel threads, or a ring repeatedly refuses a call,
// transfers use pread and pwrite instead, and are counted (tzmark/shortage.h).
#include <mutex>

#include "io/aligned_file.h"
#include "io/ring.h"
#include "io/uring_queue.h"

namespace tzmark {
namespace {

class UringFile final : public AlignedFile {
 public:
  UringFile(std::string_view io_path, OpenedFile opened, bool polled)
      : AlignedFile(io_path, std::move(opened)), polled_(polled) {}

  std::unique_ptr<TransferQueue> make_queue(unsigned depth) override {
    depth = UringQueue::possible_depth(depth);
    std::unique_ptr<Ring> ring;
    if (polled_) {
      std::call_once(shared_made_, [this] { shared_ = ring_or_none(1U, Ring::Use::kPolled); });
      if (shared_) ring = ring_or_none(depth, Ring::Use::kPolled, shared_.get());
    } else {
      ring = ring_or_none(depth, Ring::Use::kOneThread);
    }
    return std::make_unique<UringQueue>(*this, depth, std::move(ring));
  }
  bool is_asynchronous() const override { return true; }
  unsigned queue_depth_default() const override { return 16; }

 protected:
  ssize_t move(Transfer::Kind kind, int descriptor, std::byte* memory, std::size_t bytes,
               std::uint64_t offset) override {
    const RingCall call{kind, descriptor, memory, bytes, offset};
    // A part of a page, which goes through the page cache in any case. A ring takes four times as long for it.
    const bool is_edge = opened().direct.get() >= 0 && descriptor == opened().buffered.get();
    return is_edge ? move_by_system_call(call) : rings_.run(call);
  }

 private:
  RingPool rings_;
  const bool polled_;
  std::once_flag shared_made_;
  std::unique_ptr<Ring> shared_;  // its kernel thread serves all queues; null if the system refused it
};

std::unique_ptr<File> open_uring(Opening&& opening) {
  return std::make_unique<UringFile>("uring", open_plainly(std::move(opening)), false);
}

std::unique_ptr<File> open_uring_direct(Opening&& opening) {
  return std::make_unique<UringFile>("uring-direct", open_directly(std::move(opening)), false);
}

std::unique_ptr<File> open_uring_sqpoll(Opening&& opening) {
  return std::make_unique<UringFile>("uring-sqpoll", open_directly(std::move(opening)), true);
}

std::string why_no_uring() { return why_no_ring(Ring::Use::kAnyThread); }

}  // namespace

// After a fork, parent and child share the rings: each would take the completions of the other.
PathOfDescriptor uring_path() {
  return {.name = "uring",
          .summary = "io_uring through the page cache",
          .traits = {.is_asynchronous = true, .is_fork_safe = false},
          .why_unavailable = why_no_uring,
          .open = open_uring};
}

PathOfDescriptor uring_direct_path() {
  return {.name = "uring-direct",
          .summary = "io_uring that bypasses the page cache (O_DIRECT)",
          .variant_of = "uring",
          .traits = {.bypasses_cache = true, .is_asynchronous = true, .is_fork_safe = false},
          .why_unavailable = why_no_uring,
          .open = open_uring_direct};
}

PathOfDescriptor uring_sqpoll_path() {
  return {.name = "uring-sqpoll",
          .summary = "io_uring that bypasses the page cache, with a polling kernel thread (SQPOLL)",
          .variant_of = "uring",
          .traits = {.bypasses_cache = true, .is_asynchronous = true, .polls_submissions = true, .is_fork_safe = false},
          .why_unavailable = [] { return why_no_ring(Ring::Use::kPolled); },
          .open = open_uring_sqpoll};
}

}  // namespace tzmark
