// Reading a range of a file into GPU memory as it is: no tensors, no hashes.
#pragma once

#include <cstdint>

#include "tzmark/device.h"
#include "tzmark/io.h"
#include "tzmark/reader.h"

namespace tzmark {

struct DeviceRangeOptions {
  DeviceReadOptions device;    // verify and compute have no effect
  unsigned threads = 0;        // 0 = one per core
  unsigned queue_depth = 0;    // transfers in flight, summed over all threads; 0 = the I/O path's default
  std::size_t part_bytes = 0;  // of a transfer; 0 = the I/O path's default
  Progress progress;           // called from any thread, once per piece; may be empty
};

// Fills out with the file's bytes from offset on. Returns when they are in place; after an error the content of out is
// undefined. Throws TZE-AVL-001 without a GPU, TZE-ENV-006 if pinned memory cannot be had or a copy fails, and the
// errors of the file. REQUIRES: out.kind == kDevice.
void read_range_into_device(File& file, std::uint64_t offset, MutableBuffer out, const DeviceRangeOptions& options);

}  // namespace tzmark
