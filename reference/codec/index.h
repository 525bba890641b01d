// Reads the file header and the index, and checks them against the size of the file.
#pragma once

#include <cstdint>

#include "tzmark/format.h"
#include "tzmark/io.h"
#include "tzmark/table.h"

namespace tzmark {

struct Index {
  FileHeader header;
  Layout layout = Layout::kV1;
  Segments segments;        // of v5-segments
  TensorTable tensors;      // with offsets from the start of their file
  std::uint64_t begin = 0;  // of the entries
  std::uint64_t length = 0;
  std::uint64_t used = 0;  // by entries; zeros follow
  // In the headers-first layouts: the upper bound of the last header's end, and whether the first data sets it.
  std::uint64_t headers_end = 0;
  bool has_data = false;
  // Tensors by header offset, and the inverse permutation. Both are empty if the index is in that order already.
  std::vector<std::uint32_t> file_order, places;

  // The tensor whose header is number i in the file, and the number of a tensor's header.
  std::size_t in_file_order(std::size_t i) const { return file_order.empty() ? i : file_order[i]; }
  std::size_t place_in_file(std::size_t tensor) const { return places.empty() ? tensor : places[tensor]; }
};

// Throws Error with the broken rule. Needs memory in proportion to the actual entries, whatever count and length claim.
// data_file: the detached data, or null.
Index read_index(File& file, File* data_file = nullptr);

}  // namespace tzmark
