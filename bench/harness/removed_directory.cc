// The signal handler removes the files by system calls alone: nothing else is safe there.
#include "harness/removed_directory.h"

#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::string_view kPrefix = "tzmark-bench-";
constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

// What the handler removes; null while there is none, or while its object removes it.
std::atomic<const MadeDirectory*> made_directory = nullptr;
// A signal that came while its object removed the files.
std::atomic<int> late_signal = 0;
std::array<struct sigaction, kSignals.size()> actions_before{};

extern "C" void remove_directory_and_go_on(int number) {
  const int errno_before = errno;
  const MadeDirectory* const made = made_directory.exchange(nullptr);
  // Another thread is removing the files, and then ends the process or passes this signal on.
  if (made == nullptr) {
    late_signal = number;
    return;
  }
  // Other threads may create files until the process ends.
  for (int attempts = 0; attempts < 10; ++attempts) {
    remove_content(made->get(), std::chrono::seconds(10));
    if (remove_empty(made->parent(), made->entry().c_str(), made->get()) != ENOTEMPTY) break;
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == number) ::sigaction(number, &actions_before[i], nullptr);
  }
  // Arrives when this handler returns.
  static_cast<void>(::raise(number));
  errno = errno_before;
}

// Defers all signals: one in between would leave the directory.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

void make(const std::string& parent, std::optional<MadeDirectory>& made) {
  std::error_code ignored;
  std::filesystem::create_directories(parent, ignored);
  try {
    made.emplace(parent, kPrefix);
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("cannot create a directory in {}: {}", parent, error.what()));
  }
}

}  // namespace

RemovedDirectory::RemovedDirectory(const std::string& parent) {
  const SignalsBlocked until_the_handler_knows_it;
  make(parent, made_);
  remove_at_signals();
}

RemovedDirectory::RemovedDirectory(const OfAnother& directory) : is_ours_(false) {
  const SignalsBlocked until_the_handler_knows_it;
  try {
    made_.emplace(MadeDirectory::OfAnother{directory.name}, kPrefix);
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kOpenFailed, error.what());
  }
  remove_at_signals();
}

void RemovedDirectory::remove_at_signals() {
  made_directory = &*made_;
  struct sigaction action {};
  action.sa_handler = remove_directory_and_go_on;
  ::sigfillset(&action.sa_mask);
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &actions_before[i]);
    // A program that nohup started goes on.
    if (actions_before[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

RemovedDirectory::~RemovedDirectory() {
  made_directory = nullptr;
  try {
    if (is_ours_) made_->remove();
  } catch (const std::system_error& error) {
    ::dprintf(STDERR_FILENO, "tzmark: %s\n", error.what());
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &actions_before[i], nullptr);
  if (const int number = late_signal.exchange(0); number != 0) static_cast<void>(::raise(number));
}

void RemovedDirectory::clear() const {
  try {
    made_->clear();
  } catch (const std::system_error& error) {
    throw Error(ErrorCode::kWriteFailed, error.what());
  }
}

}  // namespace tzmark::bench
