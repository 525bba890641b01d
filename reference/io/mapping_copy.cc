// Copies that survive SIGBUS, and its handler.
#include "io/mapping_copy.h"

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>

#include "tzmark/io.h"

namespace tzmark {
namespace {

// A copy of this thread, and where it continues after a fault.
struct GuardedCopy {
  const std::byte* mapped;
  std::size_t bytes;
  volatile std::size_t fault = 0;  // changes between sigsetjmp and siglongjmp
  sigjmp_buf back{};
};

// Atomic because the handler reads it; of the initial executable, so that the handler's access allocates nothing.
constinit thread_local std::atomic<GuardedCopy*> guarded_copy = nullptr;
static_assert(std::atomic<GuardedCopy*>::is_always_lock_free);

struct sigaction action_before {};

// The handler blocks no signal, and saving the mask costs a system call; the thread sanitizer's handler blocks all.
#ifdef __SANITIZE_THREAD__
constexpr int kSavesMask = 1;
#else
constexpr int kSavesMask = 0;
#endif

// An access that failed. Zero and below are signals of a process, and the other one tells of bad memory that nothing
// has touched yet; neither comes again when the handler returns.
bool is_fault(const siginfo_t& information) { return information.si_code > 0 && information.si_code != BUS_MCEERR_AO; }

// Returns the first byte of the copy that a fault is at. Bad memory is a page, which may begin before the copy.
std::optional<std::size_t> fault_in(const GuardedCopy& copy, const siginfo_t& information) {
  const std::uintptr_t faulty_bytes =
      information.si_code == BUS_MCEERR_AR ? std::uintptr_t{1} << information.si_addr_lsb : 1;
  const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(information.si_addr) / faulty_bytes * faulty_bytes;
  const auto copy_begin = reinterpret_cast<std::uintptr_t>(copy.mapped);
  if (begin >= copy_begin + copy.bytes || begin + faulty_bytes <= copy_begin) return std::nullopt;
  return begin < copy_begin ? 0 : begin - copy_begin;
}

// Calls the handler that was there before, as the kernel would. Returns false if there is none, or none any more.
bool call_handler_before(int number, siginfo_t* information, void* context) {
  const bool takes_information = (action_before.sa_flags & SA_SIGINFO) != 0;
  if (!takes_information && (action_before.sa_handler == SIG_DFL || action_before.sa_handler == SIG_IGN)) return false;
  static std::atomic<bool> was_called = false;
  if (was_called.exchange(true) && (action_before.sa_flags & SA_RESETHAND) != 0) return false;
  ::sigset_t blocked = action_before.sa_mask, before;
  if ((action_before.sa_flags & SA_NODEFER) == 0) ::sigaddset(&blocked, number);
  ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if (takes_information) {
    action_before.sa_sigaction(number, information, context);
  } else {
    action_before.sa_handler(number);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return true;
}

// Does what the process would have done without this handler, which stays.
void hand_on(int number, siginfo_t* information, void* context) {
  if (call_handler_before(number, information, context)) return;
  const bool is_ignored = (action_before.sa_flags & SA_SIGINFO) == 0 && action_before.sa_handler == SIG_IGN;
  if (is_ignored && !is_fault(*information)) return;
  // Ends the process: the fault comes again when this returns.
  struct sigaction end {};
  end.sa_handler = SIG_DFL;
  ::sigaction(number, &end, nullptr);
  if (!is_fault(*information)) ::raise(number);
}

void leave_guarded_copy(int number, siginfo_t* information, void* context) {
  GuardedCopy* const copy = guarded_copy.load(std::memory_order_relaxed);
  if (copy != nullptr && is_fault(*information)) {
    if (const auto fault = fault_in(*copy, *information)) {
      copy->fault = *fault;
      siglongjmp(copy->back, 1);
    }
  }
  hand_on(number, information, context);
}

std::optional<std::size_t> copy_guarded(void* to, const void* from, std::size_t bytes, const std::byte* mapped) {
  GuardedCopy copy{mapped, bytes};
  if (sigsetjmp(copy.back, kSavesMask) != 0) {
    guarded_copy.store(nullptr, std::memory_order_relaxed);
    return copy.fault;
  }
  guarded_copy.store(&copy, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, from, bytes);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guarded_copy.store(nullptr, std::memory_order_relaxed);
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> copy_from_mapping(std::byte* to, const std::byte* mapped, std::size_t bytes) {
  return copy_guarded(to, mapped, bytes, mapped);
}

std::optional<std::size_t> copy_to_mapping(std::byte* mapped, const std::byte* from, std::size_t bytes) {
  return copy_guarded(mapped, from, bytes, mapped);
}

void catch_bus_errors() {
  static const bool is_installed = [] {
    struct sigaction action {};
    action.sa_sigaction = leave_guarded_copy;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &action_before);
    // A blocked SIGBUS ends the process without a call of the handler.
    ::sigset_t bus_errors;
    ::sigemptyset(&bus_errors);
    ::sigaddset(&bus_errors, SIGBUS);
    ::pthread_sigmask(SIG_UNBLOCK, &bus_errors, nullptr);
    return true;
  }();
  static_cast<void>(is_installed);
}

}  // namespace tzmark
