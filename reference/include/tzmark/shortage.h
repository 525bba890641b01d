// What this process did in another way because the system was short of threads, memory or file descriptors.
//
// The work is done all the same, but more slowly: code that measures compares the counts before and after. They begin
// with the process and are of all its files and threads. Thread-safe.
#pragma once

#include <cstdint>

namespace tzmark {

struct Shortage {
  std::uint64_t threads_missing = 0;     // threads that the system did not start; the others did their work
  std::uint64_t transfers_in_place = 0;  // calls of io_uring paths that were made by pread and pwrite

  bool operator==(const Shortage&) const = default;
};

Shortage shortage();
void count_missing_threads(std::uint64_t threads);
void count_transfer_in_place();

}  // namespace tzmark
