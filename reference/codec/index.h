// Reads the file header and the index, and checks all that they say against the file's real size.
#pragma once

#include <cstdint>

#include "tzmark/format.h"
#include "tzmark/io.h"
#include "tzmark/table.h"

namespace tzmark {

struct Index {
  FileHeader header;
  Layout layout;
  TensorTable tensors;
  std::uint64_t begin = 0;  // of the entries
  std::uint64_t length = 0;
  std::uint64_t used = 0;  // by entries; zeros follow
  std::uint64_t terminator_at = 0;
  std::vector<std::uint32_t> file_order;  // tensors by header offset; empty if the index is in that order already
};

// Throws Error with the rule that is broken. Memory is in proportion to the entries that are there, whatever count and
// length claim.
Index read_index(File& file);

}  // namespace tzmark
