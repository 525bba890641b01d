// What the suite and the library that makes reads short tell each other, in a file that both map. The library
// (../input_modes/short_reads.cc) uses nothing of the C++ library.
//
// Thread-safety: a value. The library changes its members atomically.
#pragma once

#include <cstdint>

namespace tzmark::conformance {

struct SharedCounts {
  std::uint64_t loads = 0;  // processes that loaded the library
  std::uint64_t reads = 0;  // reads of the file that went through it
  // The file that is read short: only that of the question, because an adapter may be in the same directory.
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

}  // namespace tzmark::conformance
