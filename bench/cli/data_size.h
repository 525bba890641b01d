// How much data a run moves where a cgroup limits memory: in a container, what is too much ends it without a word.
//
// Thread-safe; throws TZE-ENV-006.
#pragma once

#include <cstdint>
#include <string>

#include "harness/cgroup.h"

namespace tzmark::bench {

// What a run holds of its data at a time.
struct DataCopies {
  unsigned needed = 2;       // without which it fails: the tensors, and those that were read
  unsigned comfortable = 4;  // with the file in the page cache, and room for the kernel to choose
};

struct DataSize {
  std::uint64_t bytes = 0;
  std::string note = {};  // why they are fewer than without a limit; empty if they are not
};

// Returns the size that was given, if it is not 0; otherwise the default, or the largest power of two of MiB that fits
// comfortably. Throws if the given size cannot fit, or if not even 1 MiB does.
DataSize data_size(std::uint64_t given_bytes, std::uint64_t default_bytes, const DataCopies& copies,
                   const CgroupLimits& limits);

// "a cgroup limits memory to 400 MiB, of which 380 MiB are left". REQUIRES: there is a limit.
std::string limit_text(const CgroupLimits& limits);

}  // namespace tzmark::bench
