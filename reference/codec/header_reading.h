// Finds the tensor headers of a file whose index is read, and decodes them.
//
// In v1 to v4 and with entry versions a header fills the room between its offset and its data. In the headers-first
// layouts only the header itself says where it ends, so it is read with as much room as it can have, and cut there.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "codec/index.h"

namespace tzmark {

// How many bytes from its offset on a tensor's header can have. Bounded by what its fields can fill.
// Throws TZR-REC-004 if that is less than what it has to fill.
std::size_t header_room(const Index& index, std::size_t tensor);

// Decodes and cross-checks the header of a tensor. bytes: what follows its offset, at least header_room bytes of it or
// all of the header. Returns the header's own bytes, which result has views into.
std::span<const std::byte> decode_header(const Index& index, std::size_t tensor, std::span<const std::byte> bytes,
                                         TensorHeader& result);

// The bytes of one tensor's header, not yet decoded.
std::vector<std::byte> read_header(File& file, const Index& index, std::size_t tensor);

}  // namespace tzmark
