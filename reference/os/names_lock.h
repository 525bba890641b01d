// An exclusive advisory lock for processes that change several names in one directory.
//
// It is a lock (flock) of a file of its own, DIRECTORY/.tzmark-lock, which exists only while it is held, and which its
// owner alone can open (0600). A directory itself could be locked by anyone who may read it. Other users see that the
// file exists, and wait for its end.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "os/directory.h"
#include "os/file_lock.h"
#include "os/temporary_name.h"
#include "tzmark/io.h"

namespace tzmark {

class NamesLock {
 public:
  static constexpr const char* kName = ".tzmark-lock";

  // Waits as long as `wait` says, and tells of it. Throws TZE-ENV-008 after that, and TZE-ENV rules if the lock file
  // cannot be made. Has no effect on file systems that cannot lock files.
  NamesLock(std::shared_ptr<const Directory> directory, const NamesWait& wait);
  NamesLock(const NamesLock&) = delete;
  NamesLock& operator=(const NamesLock&) = delete;
  // Removes the file while it is still locked.
  ~NamesLock();

  // Returns a lock. If it cannot be had, the finished files keep their temporary names, which the error tells.
  static std::unique_ptr<NamesLock> take_or_keep(const std::shared_ptr<const Directory>& directory,
                                                 const NamesWait& wait, std::span<AtomicFile* const> finished);

 private:
  // Returns whether the lock was taken now.
  bool try_take();

  const std::shared_ptr<const Directory> directory_;
  Descriptor file_;
  FileLock lock_;
  std::optional<TemporaryName> name_;  // while the lock is held
};

}  // namespace tzmark
