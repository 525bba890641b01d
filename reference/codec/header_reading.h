// Locates and decodes tensor headers, given the index.
//
// If data follows each header, a header fills the range between its offset and its data. In the headers-first layouts
// only the header itself contains its length, so as many bytes are read as it can have, and cut afterwards.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codec/index.h"

namespace tzmark {

// Returns the maximal size of a tensor's header, bounded by what its fields can fill.
// Throws TZR-REC-004 if its fields cannot fill the range before its data.
std::size_t header_room(const Index& index, std::size_t tensor);

// Decodes the header of a tensor, and compares it with the index. bytes: header_room bytes from its offset on, or at
// least the whole header. Returns the bytes of the header, into which result has views.
std::span<const std::byte> decode_header(const Index& index, std::size_t tensor, std::span<const std::byte> bytes,
                                         TensorHeader& result);

// Reads the bytes of one tensor's header.
std::vector<std::byte> read_header(File& file, const Index& index, std::size_t tensor);

}  // namespace tzmark
