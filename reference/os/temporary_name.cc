// The table of temporary names that the signal handler reads.
//
// The handler uses only system calls and atomics. One counter holds both the number of changes that defer signals and
// whether the process is ending, so that neither starts during the other: the handler ends the process only if the
// counter is 0, and sets it so that no change starts any more. Otherwise the last change raises the signal again.
#include "os/temporary_name.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <limits>
#include <random>

#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

// Twice the number of shards of the largest model.
constexpr std::size_t kSlots = 1024;

struct Slot {
  enum State : int { kFree, kChanging, kUsed };
  std::atomic<int> state = kFree;
  int directory = -1;
  std::array<char, NAME_MAX + 1> name{};
};

std::array<Slot, kSlots> slots;
// The signals that end a process, except for those that a fault in the program raises.
constexpr std::array kHandled = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXCPU};

constexpr int kEnding = std::numeric_limits<int>::min();
std::atomic<int> changes = 0;  // in progress; negative once the process is ending
std::atomic<int> deferred_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);

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
  throw Error(ErrorCode::kResource, fmt::format("more than {} temporary files at once", kSlots));
}

void remove_all() {
  for (const Slot& slot : slots) {
    if (slot.state == Slot::kUsed) ::unlinkat(slot.directory, slot.name.data(), 0);
  }
}

[[noreturn]] void wait_for_the_end() {
  for (;;) ::pause();
}

// Ends the process with the status of the signal. An unhandled signal does not end the first process of a container
// (PID 1), so that one exits as a shell would.
[[noreturn]] void end_by(int number) {
  static_cast<void>(std::signal(number, SIG_DFL));
  sigset_t only_this{};
  ::sigemptyset(&only_this);
  ::sigaddset(&only_this, number);
  static_cast<void>(std::raise(number));
  ::pthread_sigmask(SIG_UNBLOCK, &only_this, nullptr);
  ::_exit(128 + number);
}

// All handled signals are blocked while it runs, so no second handler runs in this thread.
extern "C" void remove_and_end(int number) {
  const int errno_before = errno;
  deferred_signal = number;
  int none = 0;
  if (changes.compare_exchange_strong(none, kEnding)) {
    remove_all();
    end_by(number);
  }
  if (none < 0) wait_for_the_end();
  errno = errno_before;
}

// A write beyond the limit of file sizes fails with EFBIG, which says more than the end of the process.
extern "C" void outlive(int) {}

// Signals that nohup ignores stay ignored.
void handle(int number, const struct sigaction& handler) {
  struct sigaction before {};
  if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_DFL) {
    ::sigaction(number, &handler, nullptr);
  }
}

}  // namespace

TemporaryName::TemporaryName(std::shared_ptr<const Directory> directory, std::string name)
    : directory_(std::move(directory)), name_(std::move(name)), slot_(take_slot(directory_->get(), name_)) {}

TemporaryName::~TemporaryName() {
  if (released_) return;
  // If this fails, the caller is already getting an error.
  ::unlinkat(directory_->get(), name_.c_str(), 0);
  release();
}

void TemporaryName::release() {
  if (released_) return;
  released_ = true;
  slots[slot_].state = Slot::kFree;
}

std::string_view shortened_name(std::string_view name, std::size_t tail_bytes) {
  const auto is_inside_character = [&](std::size_t at) {
    return (static_cast<unsigned char>(name[at]) & 0xc0) == 0x80;
  };
  const std::size_t bytes_max = NAME_MAX - std::min<std::size_t>(tail_bytes, NAME_MAX);
  if (name.size() <= bytes_max) return name;
  std::size_t bytes = bytes_max;
  while (bytes > 0 && is_inside_character(bytes)) --bytes;
  return name.substr(0, bytes);
}

std::string temporary_name_for(const std::string& name, std::size_t tail_bytes) {
  std::random_device random;
  const std::size_t begin = name.rfind('/') + 1;
  const std::string_view entry = shortened_name(std::string_view(name).substr(begin), kTemporaryTailBytes + tail_bytes);
  return fmt::format("{}{}.tmp-{:08x}", std::string_view(name).substr(0, begin), entry, random());
}

Descriptor create_without_name(const Directory& directory, const TemporaryName& temporary, mode_t mode) {
  const Descriptor probe = directory.create_without_name(mode);
  if (probe.get() < 0 || !directory.can_give_name(probe.get(), temporary.name())) return Descriptor();
  return directory.create_without_name(mode);
}

Descriptor create_unnamed(const std::shared_ptr<const Directory>& directory, const std::string& name, mode_t mode) {
  Descriptor created = directory->create_without_name(mode);
  if (created.get() >= 0) return created;
  const TemporaryName temporary(directory, temporary_name_for(name));
  const SignalsDeferred until_it_has_no_name;
  // If it cannot be removed while it is open, it is closed before the name removes it.
  Descriptor named = directory->create(temporary.name(), mode);
  directory->remove_file(temporary.name());
  return named;
}

SignalsDeferred::SignalsDeferred() {
  if (++changes < 0) wait_for_the_end();
}

SignalsDeferred::~SignalsDeferred() {
  if (--changes != 0) return;
  if (const int number = deferred_signal) static_cast<void>(std::raise(number));
}

void remove_temporary_files_at_signals() {
  struct sigaction handler {};
  handler.sa_handler = remove_and_end;
  handler.sa_flags = SA_RESTART;
  ::sigemptyset(&handler.sa_mask);
  for (const int number : kHandled) ::sigaddset(&handler.sa_mask, number);
  for (const int number : kHandled) handle(number, handler);
  // Not SIG_IGN, which the programs that this process starts would inherit.
  handler.sa_handler = outlive;
  handle(SIGXFSZ, handler);
}

}  // namespace tzmark
