// The file that shows other processes who saves to a directory.
//
// The writer holds an exclusive lock on .tzmark-writer, a file that other users cannot open, so that no other user can
// hold it. A lock ends with its process; a file without one was left by a process that died, and is replaced. The file
// is never written to again after it was created: what has its name may be another file by then. On file systems that
// keep locks on each machine, writers of other machines are not seen.
// Thread-safety: for one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "os/directory.h"

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

  // Claims a directory unless that is done. If another process holds it, throws TZE-ENV-008 where claims are exclusive,
  // and otherwise returns a sentence that names the process, once.
  std::string hold(const std::string& parent);
  // Removes the files. Does nothing in a process that was forked since.
  void release() noexcept;

 private:
  struct Claim {
    Directory parent;
    Descriptor file;   // locked; empty if another process holds the lock
    std::string told;  // the last sentence that was returned
  };

  std::string try_hold(Claim& claim) const;

  const bool exclusive_;
  const pid_t process_;
  std::vector<Claim> claims_;
};

}  // namespace tzmark::checkpoint
