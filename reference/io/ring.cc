// Making rings, and handing entries to the kernel.
#include "io/ring.h"

#include <fmt/format.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <system_error>
#include <thread>

#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr unsigned kPolledIdleMs = 20;  // then the thread of the kernel sleeps, and gives its core back

std::string text_of(int error_number) { return std::generic_category().message(error_number); }

std::string why_forbidden() {
  std::optional<int> disabled;
  std::ifstream setting("/proc/sys/kernel/io_uring_disabled");
  if (int value = 0; setting >> value) disabled = value;
  if (disabled == 2) return "the setting kernel.io_uring_disabled is 2, which forbids io_uring to everybody";
  if (disabled == 1) {
    return "the setting kernel.io_uring_disabled is 1, which forbids io_uring to who has neither CAP_SYS_ADMIN nor "
           "the group kernel.io_uring_group";
  }
  return "the system forbids io_uring to this process, by a seccomp filter, as containers have them, or by a "
         "security module";
}

int init(unsigned entries, unsigned flags, const Ring* shared, io_uring& ring) {
  io_uring_params parameters{};
  parameters.flags = flags;
  parameters.sq_thread_idle = kPolledIdleMs;
  if (shared != nullptr) {
    parameters.flags |= IORING_SETUP_ATTACH_WQ;
    parameters.wq_fd = static_cast<unsigned>(const_cast<Ring*>(shared)->get()->ring_fd);
  }
  return ::io_uring_queue_init_params(entries, &ring, &parameters);
}

bool is_transient(int result) { return result == -EINTR || result == -EAGAIN || result == -EBUSY; }

// What is left here is no transfer's fault: a ring that cannot be entered.
void require_entered(int result) {
  if (result < 0 && !is_transient(result)) {
    throw Error(ErrorCode::kResource, fmt::format("io_uring_enter: {}", text_of(-result)));
  }
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
      return "the kernel has no io_uring, or a seccomp filter says so";
    case ENOMEM:
      return "no memory for a ring: before Linux 5.12 the limit of locked memory (ulimit -l) counts for it";
    default:
      return fmt::format("io_uring_setup: {}", text_of(-result));
  }
}

Ring::Ring(unsigned entries, Use use, const Ring* shared) {
  int result = -EINVAL;
  if (use == Use::kPolled) {
    result = init(entries, IORING_SETUP_SQPOLL, shared, ring_);
  } else if (use == Use::kOneThread) {
    // The flag tells reap whether the kernel has work to finish, so that it looks without a system call.
    constexpr unsigned kFlags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    result = init(entries, kFlags, nullptr, ring_);
  }
  // Before Linux 6.1 there are no such flags.
  if (result == -EINVAL && use != Use::kPolled) result = init(entries, 0, nullptr, ring_);
  if (result != 0) throw Error(ErrorCode::kResource, fmt::format("io_uring_setup: {}", text_of(-result)));
}

io_uring_sqe& Ring::next_entry() {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  // The thread of a polled ring may not have taken all yet that was submitted.
  while (entry == nullptr) {
    submit();
    std::this_thread::yield();
    entry = ::io_uring_get_sqe(&ring_);
  }
  return *entry;
}

void Ring::submit() { require_entered(::io_uring_submit(&ring_)); }

void Ring::submit_and_wait() {
  const int result = ::io_uring_submit_and_wait(&ring_, 1);
  require_entered(result);
  if (result == -EAGAIN || result == -EBUSY) std::this_thread::yield();
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
  std::unique_ptr<Ring> ring = take();
  fill_entry(ring->next_entry(), call);
  int result = 0;
  do {
    ring->submit_and_wait();
  } while (ring->reap([&](std::uint64_t, int moved) { result = moved; }) == 0);
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
  return std::make_unique<Ring>(1U, Ring::Use::kAnyThread);
}

}  // namespace tzmark
