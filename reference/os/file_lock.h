// Advisory locks (flock) of open files and directories, which end with the process that took them.
//
// A forked child has the descriptors of its parent, and with them its locks: without more, a lock would last as long as
// the last child, also after the parent was killed. A FileLock is therefore registered, and a child begins with other
// descriptors in the place of those that hold a lock. A child that is made without the handlers of pthread_atfork (by
// vfork, posix_spawn or clone) loses them when it executes a program. Not for a file that a forked child goes on to
// use, such as InPlaceFile. For one thread at a time.
#pragma once

#include <cstdint>
#include <utility>

namespace tzmark {

enum class Lock : std::uint8_t { kShared, kAlone };

class FileLock {
 public:
  FileLock() = default;  // of nothing
  // Tries to lock an open file or directory. If that fails, leaves errno set, to EWOULDBLOCK if another holder excludes
  // this one. REQUIRES: fd is closed after this object is destroyed.
  FileLock(int fd, Lock lock);
  FileLock(FileLock&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(entry_, other.entry_);
    return *this;
  }
  ~FileLock();

  bool is_held() const { return entry_ != nullptr; }

  struct Entry;  // of the register

 private:
  Entry* entry_ = nullptr;
};

// Locks without an entry in the register. Returns false and leaves errno set, as above.
bool try_lock(int fd, Lock lock);

}  // namespace tzmark
