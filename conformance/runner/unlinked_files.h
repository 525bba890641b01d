// What processes keep on disk in files without a name: unlinked while they are open, or made with O_TMPFILE.
//
// Thread-safety: pure functions of what the system says at the moment.
#pragma once

#include <sys/types.h>

#include <cstdint>

namespace tzmark::conformance {

// Bytes on disk of the files without a name that a thread of the processes below this one has open, each file once,
// wherever it is. Files in memory (memfd, /dev/shm) and those that this process has open itself do not count. Nor does
// what only a mapping keeps, unless its pages are resident, as memory: to list the mappings of a process at each look
// takes too long. What starts, ends or is opened meanwhile may be missed, and so are processes whose descriptors this
// user may not list.
std::uint64_t unlinked_bytes_below(pid_t pid);

}  // namespace tzmark::conformance
