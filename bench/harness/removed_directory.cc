// The signal handler removes the files by system calls alone: nothing else is safe there.
#include "harness/removed_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

// Of the object that exists; -1 while there is none.
std::atomic<int> made_directory = -1;
int made_parent = -1;
std::array<char, 64> made_name{};
std::array<struct sigaction, kSignals.size()> actions_before{};

// depth: of directories below it, which are those of workers.
void remove_files(int directory, int depth) {
  alignas(dirent64) std::array<char, 4096> entries;
  ::lseek(directory, 0, SEEK_SET);
  for (;;) {
    const long length = ::syscall(SYS_getdents64, directory, entries.data(), entries.size());
    if (length <= 0) return;
    for (long at = 0; at < length;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries.data() + at);
      at += entry->d_reclen;
      if (std::strcmp(entry->d_name, ".") == 0 || std::strcmp(entry->d_name, "..") == 0) continue;
      if (::unlinkat(directory, entry->d_name, 0) == 0 || depth == 0) continue;
      const int below = ::openat(directory, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
      if (below < 0) continue;
      remove_files(below, depth - 1);
      ::close(below);
      ::unlinkat(directory, entry->d_name, AT_REMOVEDIR);
    }
  }
}

extern "C" void remove_directory_and_go_on(int number) {
  const int errno_before = errno;
  const int directory = made_directory.exchange(-1);
  // Other threads may create files until the process ends.
  for (int attempts = 0; directory >= 0 && attempts < 10; ++attempts) {
    remove_files(directory, 1);
    if (::unlinkat(made_parent, made_name.data(), AT_REMOVEDIR) == 0) break;
  }
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    if (kSignals[i] == number) ::sigaction(number, &actions_before[i], nullptr);
  }
  // Arrives when this handler returns.
  static_cast<void>(::raise(number));
  errno = errno_before;
}

[[noreturn]] void cannot_create(const std::string& parent) {
  throw Error(ErrorCode::kOpenFailed,
              fmt::format("cannot create a directory in {}: {}", parent, std::generic_category().message(errno)));
}

}  // namespace

RemovedDirectory::RemovedDirectory(const std::string& parent) : name_(parent + "/tzmark-bench-XXXXXX") {
  std::error_code error;
  std::filesystem::create_directories(parent, error);
  parent_ = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent_ < 0) cannot_create(parent);
  // A signal in between would leave it.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &before);
  const bool is_made = ::mkdtemp(name_.data()) != nullptr;
  if (is_made) {
    const std::string last = name_.substr(name_.rfind('/') + 1);
    std::memcpy(made_name.data(), last.c_str(), last.size() + 1);
    made_parent = parent_;
    made_directory = ::openat(parent_, last.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct sigaction action {};
    action.sa_handler = remove_directory_and_go_on;
    ::sigfillset(&action.sa_mask);
    for (std::size_t i = 0; i < kSignals.size(); ++i) {
      ::sigaction(kSignals[i], nullptr, &actions_before[i]);
      // A program that nohup started goes on.
      if (actions_before[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
    }
  }
  const int mkdtemp_errno = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (is_made) return;
  ::close(parent_);
  errno = mkdtemp_errno;
  cannot_create(parent);
}

RemovedDirectory::~RemovedDirectory() {
  const int directory = made_directory.exchange(-1);
  for (std::size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &actions_before[i], nullptr);
  if (directory >= 0) ::close(directory);
  std::error_code ignored;
  std::filesystem::remove_all(name_, ignored);
  ::close(parent_);
}

}  // namespace tzmark::bench
