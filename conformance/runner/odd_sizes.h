// The size of a short read: an odd number that depends only on the seed and the position in the file, and neither on
// threads nor on requested sizes. The preloaded library (../input modes/short_reads.cc) uses it too.
//
// Thread-safety: a pure function.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tzmark::conformance {

// At most half of the file, so that no read returns all of it; for large files more than a page, so that thousands of
// reads are enough. Never 0.
constexpr std::uint64_t odd_piece_bytes(std::uint64_t seed, std::uint64_t offset, std::uint64_t file_bytes) {
  // The finisher of splitmix64.
  std::uint64_t mixed = seed + (offset + 1) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  mixed ^= mixed >> 31;
  const std::uint64_t most =
      std::max<std::uint64_t>(1, std::min(file_bytes / 2, std::max<std::uint64_t>(4096, file_bytes / 256)));
  // Small sizes are as frequent as large ones: picks the number of bits first, then the number.
  std::uint64_t bits = 1;
  while (bits < 63 && (most >> bits) != 0) ++bits;
  const std::uint64_t piece = ((mixed >> 8) & ((std::uint64_t{1} << (1 + mixed % bits)) - 1)) | 1;
  return std::min(piece, (most - 1) | 1);
}

}  // namespace tzmark::conformance
