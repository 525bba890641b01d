// The register of locks, and what a forked child does with it.
#include "os/file_lock.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "io/paths.h"
#include "tzmark/error.h"

namespace tzmark {

struct FileLock::Entry {
  std::atomic<int> fd;
  Entry* next;
};

namespace {

constexpr int kFree = -1;
constexpr int kLeft = -2;  // to the parent of this process, and still in use by a FileLock of this process

// Grows only, and its entries are used again: a child may walk along it whatever other threads did during the fork.
constinit std::atomic<FileLock::Entry*> first_entry = nullptr;

FileLock::Entry* register_lock(int fd) {
  for (FileLock::Entry* entry = first_entry; entry != nullptr; entry = entry->next) {
    int expected = kFree;
    if (entry->fd.compare_exchange_strong(expected, fd)) return entry;
  }
  auto* const added = new FileLock::Entry{fd, first_entry};
  while (!first_entry.compare_exchange_weak(added->next, added)) {
  }
  return added;
}

// Runs in every forked child, and makes only calls that are safe there (signal-safety(7)). Closing releases nothing
// that the parent holds, unlike unlocking. The number stays in use by something harmless until its owner in this
// process closes it: by then it could be that of another file.
void leave_locks_to_parent() {
  for (FileLock::Entry* entry = first_entry; entry != nullptr; entry = entry->next) {
    const int fd = entry->fd;
    if (fd < 0) continue;
    entry->fd = kLeft;
    ::close(fd);
    const int harmless = ::open("/", O_PATH | O_CLOEXEC);
    if (harmless < 0 || harmless == fd) continue;
    ::dup3(harmless, fd, O_CLOEXEC);
    ::close(harmless);
  }
}

// Before any lock, and before there are threads.
const int register_error = ::pthread_atfork(nullptr, nullptr, leave_locks_to_parent);

}  // namespace

FileLock::FileLock(int fd, Lock lock) {
  if (register_error != 0) {
    errno = register_error;
    throw_errno(ErrorCode::kResource, "cannot let go of locks in forked processes (pthread_atfork)");
  }
  // A fork in between leaves the child without the descriptor, and not with a lock that it does not know of.
  Entry* const entry = register_lock(fd);
  if (try_lock(fd, lock)) {
    entry_ = entry;
  } else {
    entry->fd = kFree;
  }
}

FileLock::~FileLock() {
  if (entry_ == nullptr) return;
  // A fork between the next line and the end of the descriptor gives the child a lock no more.
  if (const int fd = entry_->fd; fd >= 0) ::flock(fd, LOCK_UN);
  entry_->fd = kFree;
}

bool try_lock(int fd, Lock lock) {
  return uninterrupted([&] { return ::flock(fd, (lock == Lock::kShared ? LOCK_SH : LOCK_EX) | LOCK_NB); }) == 0;
}

}  // namespace tzmark
