// Counts fallbacks that this process took because the system was short of threads, memory or file descriptors.
//
// The work was done, but more slowly: a benchmark compares the counts before and after. They start with the process and
// cover all of its files and threads. Thread-safe.
#pragma once

#include <cstdint>

namespace tzmark {

struct Shortage {
  std::uint64_t threads_missing = 0;     // threads that the system did not start
  std::uint64_t transfers_in_place = 0;  // transfers of io_uring paths that used pread or pwrite instead

  bool operator==(const Shortage&) const = default;
};

Shortage shortage();

}  // namespace tzmark
