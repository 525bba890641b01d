// Creating rings, and submitting entries.
#include "io/ring.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <system_error>
#include <thread>

#include "bytes/threads.h"
#include "io/paths.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr unsigned kPolledIdleMs = 20;  // idle time after which the kernel thread sleeps and frees its core
// The ring is broken after this many consecutive refusals.
constexpr unsigned kRefusalsMax = 100;
// If waiting for completions fails, they may still arrive: poll for half a minute.
constexpr std::chrono::milliseconds kLookInterval(1);
constexpr unsigned kLooksMax = 30'000;

std::string text_of(int error_number) { return std::generic_category().message(error_number); }

std::string why_forbidden() {
  std::optional<int> disabled;
  std::ifstream setting("/proc/sys/kernel/io_uring_disabled");
  if (int value = 0; setting >> value) disabled = value;
  if (disabled == 2) return "kernel.io_uring_disabled is 2, which disables io_uring for all processes";
  if (disabled == 1) {
    return "kernel.io_uring_disabled is 1, which restricts io_uring to CAP_SYS_ADMIN and the group "
           "kernel.io_uring_group";
  }
  return "a seccomp filter (as in containers) or a security module forbids io_uring";
}

// The memory of closed rings counts against the user's limit of locked memory until the kernel frees it a little later;
// until then there may be no memory for a new ring.
constexpr int kMemoryLooksMax = 200;

// Orders what threads do with rings that get the same memory one after the other. The kernel orders it already, but
// liburing maps memory without libc, so that the thread sanitizer cannot see that.
std::atomic<unsigned> rings_closed = 0;

int init(unsigned entries, unsigned flags, const Ring* shared, io_uring& ring) {
  for (int look = 1;; ++look) {
    io_uring_params parameters{};
    parameters.flags = flags;
    parameters.sq_thread_idle = kPolledIdleMs;
    if (shared != nullptr) {
      parameters.flags |= IORING_SETUP_ATTACH_WQ;
      parameters.wq_fd = static_cast<unsigned>(const_cast<Ring*>(shared)->get()->ring_fd);
    }
    const int result = ::io_uring_queue_init_params(entries, &ring, &parameters);
    if (result != -ENOMEM || look == kMemoryLooksMax) return result;
    std::this_thread::sleep_for(kLookInterval);
  }
}

// Returns whether an error is temporary, unlike a missing permission or kernel feature.
bool is_shortage(int result) {
  return result == -ENOMEM || result == -EAGAIN || result == -EMFILE || result == -ENFILE;
}

}  // namespace

std::string why_no_ring(Ring::Use use) {
  io_uring ring{};
  int result = init(2, 0, nullptr, ring);
  if (result == 0 && use == Ring::Use::kPolled) {
    ::io_uring_queue_exit(&ring);
    result = init(2, IORING_SETUP_SQPOLL, nullptr, ring);
    if (result == -EPERM) return "before Linux 5.11 a polled ring (SQPOLL) needs CAP_SYS_ADMIN";
  }
  if (result == 0) {
    ::io_uring_queue_exit(&ring);
    return {};
  }
  switch (-result) {
    case EPERM:
    case EACCES:
      return why_forbidden();
    case ENOSYS:
      return "the kernel has no io_uring, or a seccomp filter hides it";
    case EAGAIN:
      // The system cannot start a thread for a polled ring at present; transfers then use pread and pwrite.
      return {};
    case ENOMEM:
      return "no memory for a ring; the limit of locked memory (ulimit -l) may be too low";
    default:
      return fmt::format("io_uring_setup: {}", text_of(-result));
  }
}

Ring::Ring(unsigned entries, Use use, const Ring* shared) {
  int result = -EINVAL;
  if (use == Use::kPolled) {
    result = init(entries, IORING_SETUP_SQPOLL, shared, ring_);
  } else if (use == Use::kOneThread) {
    // IORING_SETUP_TASKRUN_FLAG lets reap see without a system call whether the kernel has work to finish.
    constexpr unsigned kFlags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    result = init(entries, kFlags, nullptr, ring_);
  }
  // Kernels before Linux 6.1 lack these flags.
  if (result == -EINVAL && use != Use::kPolled) result = init(entries, 0, nullptr, ring_);
  if (result != 0) {
    throw Error(is_shortage(result) ? ErrorCode::kResource : ErrorCode::kUnavailable,
                fmt::format("io_uring_setup: {}", text_of(-result)));
  }
  static_cast<void>(rings_closed.load(std::memory_order_acquire));
}

Ring::~Ring() {
  drain([](std::uint64_t, int) {});
  rings_closed.fetch_add(1, std::memory_order_release);
  ::io_uring_queue_exit(&ring_);
}

io_uring_sqe* Ring::next_entry() {
  if (broken_) return nullptr;
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  // The kernel thread of a polled ring may not have consumed all submissions yet.
  while (entry == nullptr) {
    if (!submit()) return nullptr;
    std::this_thread::yield();
    entry = ::io_uring_get_sqe(&ring_);
  }
  ++begun_;
  return entry;
}

bool Ring::submit() { return !broken_ && is_entered(::io_uring_submit(&ring_)); }

bool Ring::submit_and_wait() { return !broken_ && is_entered(::io_uring_submit_and_wait(&ring_, 1)); }

bool Ring::is_entered(int result) {
  if (result >= 0 || result == -EINTR) {
    refusals_ = 0;
  } else if ((result == -EAGAIN || result == -EBUSY) && ++refusals_ < kRefusalsMax) {
    // Completions free resources.
    std::this_thread::yield();
  } else {
    broken_ = true;
  }
  return !broken_;
}

void Ring::look_again(unsigned& failures) {
  // The thread of a polled ring may sleep and never have seen what it was shown.
  const unsigned flags = IORING_ENTER_GETEVENTS | (is_polled() ? IORING_ENTER_SQ_WAKEUP : 0U);
  const int result = ::io_uring_enter(static_cast<unsigned>(ring_.ring_fd), 0, 0, flags, nullptr);
  if (result >= 0 || result == -EINTR) {
    failures = 0;
  } else if (++failures == kLooksMax) {
    // Uses fprintf since an exception would free the memory.
    static_cast<void>(
        std::fprintf(stderr,
                     "tzmark: waiting for io_uring failed (%s), and the kernel may still write to memory: aborting to "
                     "prevent data corruption\n",
                     ::strerrordesc_np(-result)));
    std::abort();
  }
  std::this_thread::sleep_for(kLookInterval);
}

std::unique_ptr<Ring> ring_or_none(unsigned entries, Ring::Use use, const Ring* shared) {
  try {
    return std::make_unique<Ring>(entries, use, shared);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResource) throw;
    return nullptr;
  }
}

bool is_refusal(int result) {
  return result == -ECANCELED || result == -ENOMEM || result == -EBUSY || result == -EAGAIN || result == -EINTR;
}

int move_in_place(const RingCall& call) {
  count_transfer_in_place();
  return move_by_system_call(call);
}

int move_by_system_call(const RingCall& call) {
  const auto offset = static_cast<off_t>(call.offset);
  const auto move = [&] {
    return call.kind == Transfer::Kind::kRead ? ::pread(call.descriptor, call.memory, call.bytes, offset)
                                              : ::pwrite(call.descriptor, call.memory, call.bytes, offset);
  };
  const ssize_t moved = uninterrupted(EAGAIN, move);
  return moved < 0 ? -errno : static_cast<int>(moved);
}

void fill_entry(io_uring_sqe& entry, const RingCall& call, int registered_memory) {
  const bool reads = call.kind == Transfer::Kind::kRead;
  const auto bytes = static_cast<unsigned>(call.bytes);
  if (registered_memory >= 0 && reads) {
    ::io_uring_prep_read_fixed(&entry, call.descriptor, call.memory, bytes, call.offset, registered_memory);
  } else if (registered_memory >= 0) {
    ::io_uring_prep_write_fixed(&entry, call.descriptor, call.memory, bytes, call.offset, registered_memory);
  } else if (reads) {
    ::io_uring_prep_read(&entry, call.descriptor, call.memory, bytes, call.offset);
  } else {
    ::io_uring_prep_write(&entry, call.descriptor, call.memory, bytes, call.offset);
  }
}

int RingPool::run(const RingCall& call) {
  for (unsigned attempt = 0; attempt < kRingAttempts; ++attempt) {
    const std::optional<int> result = run_in_ring(call);
    if (!result) break;
    if (!is_refusal(*result)) return *result;
  }
  return move_in_place(call);
}

std::optional<int> RingPool::run_in_ring(const RingCall& call) {
  std::unique_ptr<Ring> ring = take();
  io_uring_sqe* const entry = ring ? ring->next_entry() : nullptr;
  if (entry == nullptr) return std::nullopt;
  fill_entry(*entry, call);
  std::optional<int> result;
  const auto completed = [&](std::uint64_t, int moved) { result = moved; };
  while (!result && ring->submit_and_wait()) ring->reap(completed);
  ring->drain(completed);
  if (ring->is_broken()) return result;
  const std::lock_guard lock(mutex_);
  rings_.push_back(std::move(ring));
  return result;
}

std::unique_ptr<Ring> RingPool::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!rings_.empty()) {
      std::unique_ptr<Ring> ring = std::move(rings_.back());
      rings_.pop_back();
      return ring;
    }
  }
  return ring_or_none(1U, Ring::Use::kAnyThread);
}

}  // namespace tzmark
