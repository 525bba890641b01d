// Reading ranges of a file into memory as they are: no tensors, no hashes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tzmark/io.h"
#include "tzmark/reader.h"

namespace tzmark {

struct RangeReadOptions {
  unsigned threads = 0;               // 0 = one per core
  std::size_t piece_bytes = 2 << 20;  // maximal size of a transfer, and of a copy to a GPU
  std::size_t part_bytes = 0;         // of a transfer; 0 = the I/O path's default
  unsigned queue_depth = 0;           // transfers in flight, over all threads; 0 = the path's default
  std::size_t pinned_bytes_max = std::size_t{240} << 20;  // of the memory that copies to a GPU pin
  Progress progress = {};                                 // called from any thread, once per piece; may be empty
};

// Fills out, in host or GPU memory, with the file's bytes from offset on. Returns when they are in place; after an
// error the content of out is undefined. Throws the error of the file at the lowest offset; into GPU memory also
// TZE-AVL-001 without a GPU, and TZE-ENV-006 if pinned memory cannot be had or a copy fails.
void read_range(File& file, std::uint64_t offset, MutableBuffer out, const RangeReadOptions& options);

struct RangeTarget {
  std::uint64_t offset = 0;
  MutableBuffer out;
};

// The same for several ranges, by one pipeline. REQUIRES: they are in the order of their offsets, and in the memory of
// one GPU, to which the file does not move its bytes by itself.
void read_ranges(File& file, std::span<const RangeTarget> ranges, const RangeReadOptions& options);

}  // namespace tzmark
