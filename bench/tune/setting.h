// What a tuner may choose: how the bytes of a file are moved.
//
// Values; functions are thread-safe and throw only std::bad_alloc.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "harness/pages.h"

namespace tzmark::bench {

struct Setting {
  std::string io;                 // a path of the registry
  std::uint64_t block_bytes = 0;  // of a transfer
  unsigned queue_depth = 0;       // transfers in flight, over all threads
  unsigned threads = 0;           // compute threads
  Pages pages = Pages::kHuge;     // of the memory that is read into or written from

  // What a loader has to hold besides the tensors.
  std::uint64_t bytes_in_flight() const { return block_bytes * queue_depth; }

  friend auto operator<=>(const Setting&, const Setting&) = default;
};

// "uring-direct, 1 MiB, depth 16, 2 threads, huge pages"
std::string label_of(const Setting& setting);

}  // namespace tzmark::bench
