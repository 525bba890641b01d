// The dimensions of a tensor in the file: u32 each, or u64 each if the index entry says so.
#pragma once

#include <span>

#include "bytes/cursor.h"
#include "tzmark/format.h"

namespace tzmark {

// REQUIRES: bytes.size() == tensor.shape_bytes().
inline void decode_dimensions(std::span<const std::byte> bytes, TensorFields& tensor) {
  TZMARK_REQUIRES(bytes.size() == tensor.shape_bytes());
  for (std::size_t i = 0; i < tensor.dimension_count; ++i) {
    tensor.dimensions[i] = tensor.wide_dimensions ? load<std::uint64_t>(bytes, i * sizeof(std::uint64_t))
                                                  : load<std::uint32_t>(bytes, i * sizeof(std::uint32_t));
  }
}

inline void encode_dimensions(ByteWriter& writer, const TensorFields& tensor) {
  for (const std::uint64_t dimension : tensor.shape()) {
    if (tensor.wide_dimensions) {
      writer.integer(dimension);
    } else {
      writer.integer(static_cast<std::uint32_t>(dimension));
    }
  }
}

}  // namespace tzmark
