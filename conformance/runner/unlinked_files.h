// What processes have open: files without a name, which are unlinked or made with O_TMPFILE, and how many descriptors.
//
// Thread-safety: pure functions of what the system says at the moment.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace tzmark::conformance {

struct OpenFiles {
  std::uint64_t disk_bytes = 0;    // of files without a name, wherever they are
  std::uint64_t memory_bytes = 0;  // of files without a name that are in memory: memfd, /dev/shm
  std::uint64_t descriptors = 0;   // of all processes together
};

// What the processes below this one have open in any thread. Each file counts once, and those that this process has
// open itself do not count. Nor does what only a mapping keeps, unless its pages are resident, as memory: to list the
// mappings of a process at each look takes too long. What starts, ends or is opened meanwhile may be missed, and so are
// processes whose descriptors this user may not list.
OpenFiles open_files_below(pid_t pid);

}  // namespace tzmark::conformance
