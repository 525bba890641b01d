// The table of temporary names, which the handler of signals reads.
//
// The handler makes system calls and uses atomics only. A change that defers it is counted: either the handler sees the
// count and leaves the signal to the end of the change, or the change sees that the handler is at work and waits for
// the end of the process.
#include "io/temporary_name.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <random>

#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

// Twice the shards of the largest model that is written.
constexpr std::size_t kSlots = 1024;

struct Slot {
  enum State : int { kFree, kChanging, kUsed };
  std::atomic<int> state = kFree;
  int directory = -1;
  std::array<char, NAME_MAX + 1> name{};
};

std::array<Slot, kSlots> slots;
std::atomic<int> changes = 0;
std::atomic<bool> handling = false;
std::atomic<int> deferred_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

std::size_t take_slot(int directory, const std::string& name) {
  if (name.size() > NAME_MAX) throw Error(ErrorCode::kOpenFailed, "cannot create: File name too long");
  for (std::size_t i = 0; i < kSlots; ++i) {
    int free = Slot::kFree;
    if (!slots[i].state.compare_exchange_strong(free, Slot::kChanging)) continue;
    slots[i].directory = directory;
    std::ranges::copy(name, slots[i].name.begin());
    slots[i].name[name.size()] = '\0';
    slots[i].state = Slot::kUsed;
    return i;
  }
  throw Error(ErrorCode::kResource, fmt::format("more than {} temporary files at a time", kSlots));
}

void remove_all() {
  for (const Slot& slot : slots) {
    if (slot.state == Slot::kUsed) ::unlinkat(slot.directory, slot.name.data(), 0);
  }
}

extern "C" void remove_and_end(int number) {
  const int errno_before = errno;
  deferred_signal = number;
  for (;;) {
    handling = true;
    if (changes == 0) break;
    handling = false;
    // Asked again, as the last change may have ended before it could see the signal.
    if (changes != 0) {
      errno = errno_before;
      return;
    }
  }
  remove_all();
  // Ends the process, with the status that the signal gives, when this handler returns.
  static_cast<void>(std::signal(number, SIG_DFL));
  static_cast<void>(std::raise(number));
}

}  // namespace

TemporaryName::TemporaryName(std::shared_ptr<const Directory> directory, std::string name)
    : directory_(std::move(directory)), name_(std::move(name)), slot_(take_slot(directory_->get(), name_)) {}

TemporaryName::~TemporaryName() {
  if (released_) return;
  // Nothing is left to do where that fails: an error is on its way to the caller already.
  ::unlinkat(directory_->get(), name_.c_str(), 0);
  release();
}

void TemporaryName::release() {
  if (released_) return;
  released_ = true;
  slots[slot_].state = Slot::kFree;
}

std::string temporary_name_for(const std::string& name) {
  std::random_device random;
  return fmt::format("{}.tmp-{:08x}", name, random());
}

SignalsDeferred::SignalsDeferred() {
  for (;;) {
    ++changes;
    if (!handling) return;
    --changes;
    while (handling) ::sched_yield();
  }
}

SignalsDeferred::~SignalsDeferred() {
  if (--changes != 0) return;
  if (const int number = deferred_signal) static_cast<void>(std::raise(number));
}

void remove_temporary_files_at_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before {};
    // What nohup ignores stays ignored.
    if (::sigaction(number, nullptr, &before) != 0 || before.sa_handler != SIG_DFL) continue;
    struct sigaction handler {};
    handler.sa_handler = remove_and_end;
    handler.sa_flags = SA_RESTART;
    ::sigaction(number, &handler, nullptr);
  }
}

}  // namespace tzmark
