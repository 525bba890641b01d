// The file that shows other processes who saves to a directory.
//
// The writer holds an exclusive lock on .tzmark-writer, a file that other users cannot open, so that no other user can
// hold it. A lock ends with its process, whatever children it has forked; a file without one was left by a process that
// died, and is replaced. The file is never written to again after it was created: what has its name may be another file
// by then. On file systems that keep locks on each machine, writers of other machines are not seen.
// Thread-safety: for one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "os/directory.h"
#include "os/file_lock.h"

namespace tzmark::checkpoint {

inline constexpr std::string_view kWriterName = ".tzmark-writer";

struct WriterProcess {
  std::string host;
  std::uint64_t pid = 0;
};
WriterProcess this_process();
// Returns "process 42 on host-a".
std::string describe(const WriterProcess& process);

// The claims of one checkpointer, one per directory.
class Claims {
 public:
  explicit Claims(bool exclusive);
  ~Claims() { release(); }
  Claims(const Claims&) = delete;
  Claims& operator=(const Claims&) = delete;

  // Claims a directory unless that is done and its file still has its name. If another process holds it, throws
  // TZE-ENV-008 where claims are exclusive, and otherwise returns a sentence that names the process, once.
  std::string hold(const std::string& parent);
  // Removes the files, and none of another process: in a forked child, those of the parent.
  void release() noexcept;

 private:
  struct Claim {
    Directory parent;
    Descriptor file;  // empty if another process holds the lock
    FileLock lock;
    std::string told;  // the last sentence that was returned
  };

  bool create(Claim& claim) const;
  std::string try_hold(Claim& claim) const;

  const bool exclusive_;
  std::vector<Claim> claims_;
};

}  // namespace tzmark::checkpoint
