// Index entries: what the file says about each tensor up front.
#include <fmt/format.h>

#include "bytes/cursor.h"
#include "tzmark/error.h"
#include "tzmark/format.h"

namespace tzmark {

std::optional<std::uint64_t> nominal_bytes(std::span<const std::uint64_t> shape, std::uint64_t item_bytes) {
  // A zero anywhere makes the product zero, however large the other dimensions are.
  for (const std::uint64_t dimension : shape) {
    if (dimension == 0) return 0;
  }
  std::uint64_t product = item_bytes;
  for (const std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(product, dimension, &product)) return std::nullopt;
  }
  if (product >> 63 != 0) return std::nullopt;
  return product;
}

void decode_index_entry(ByteReader& reader, IndexEntry& entry) {
  const auto at = [&](std::uint64_t& field) { field = reader.file_position(); };
  const auto name_length = reader.integer<std::uint16_t>("a name's length");
  at(entry.name_at);
  entry.name = as_text(reader.take(name_length, "a name"));
  at(entry.kind_at);
  const auto kind = reader.integer<std::uint8_t>("a kind");
  if (kind > static_cast<std::uint8_t>(Kind::kStateDict)) {
    throw Error(ErrorCode::kIndexKind, fmt::format("kind {} is not 0, 1 or 2", kind), entry.kind_at);
  }
  entry.kind = static_cast<Kind>(kind);
  const auto dtype_length = reader.integer<std::uint8_t>("a dtype's length");
  at(entry.dtype_at);
  entry.dtype = as_text(reader.take(dtype_length, "a dtype"));
  at(entry.shape_at);
  entry.dimension_count = reader.integer<std::uint8_t>("a count of dimensions");
  const auto dimensions = reader.take(entry.dimension_count * sizeof(std::uint32_t), "a shape");
  for (std::size_t i = 0; i < entry.dimension_count; ++i) {
    entry.dimensions[i] = load<std::uint32_t>(dimensions, i * sizeof(std::uint32_t));
  }
  at(entry.header_offset_at);
  entry.header_offset = reader.integer<std::uint64_t>("a header offset");
  at(entry.data_offset_at);
  entry.data_offset = reader.integer<std::uint64_t>("a data offset");
  at(entry.data_length_at);
  entry.data_length = reader.integer<std::uint64_t>("a data length");
}

void encode_index_entry(ByteWriter& writer, const TensorFields& tensor, std::uint64_t header_offset,
                        std::uint64_t data_offset) {
  writer.text<std::uint16_t>(tensor.name);
  writer.integer(static_cast<std::uint8_t>(tensor.kind));
  writer.text<std::uint8_t>(tensor.dtype);
  writer.integer(tensor.dimension_count);
  for (const std::uint64_t dimension : tensor.shape()) writer.integer(static_cast<std::uint32_t>(dimension));
  writer.integer(header_offset);
  writer.integer(data_offset);
  writer.integer(tensor.data_length);
}

std::size_t index_entry_bytes(const TensorFields& tensor) {
  return kIndexEntryBytesMin + tensor.name.size() + tensor.dtype.size() +
         tensor.dimension_count * sizeof(std::uint32_t);
}

}  // namespace tzmark
