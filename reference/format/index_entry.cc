// Index entries: the first description of each tensor.
#include <fmt/format.h>

#include "bytes/cursor.h"
#include "format/dimensions.h"
#include "tzmark/error.h"
#include "tzmark/format.h"

namespace tzmark {

std::optional<std::uint64_t> nominal_bytes(std::span<const std::uint64_t> shape, std::uint64_t item_bytes) {
  // A single zero makes the product zero, even if the other dimensions would overflow.
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

void decode_index_entry(ByteReader& reader, Layout layout, IndexEntry& entry) {
  const auto at = [&](std::uint64_t& field) { field = reader.file_position(); };
  entry.wide_dimensions = false;
  if (has_entry_versions(layout)) {
    const std::uint64_t version_at = reader.file_position();
    const auto version = reader.integer<std::uint32_t>("an entry's version");
    if (version != kEntryVersionNarrow && version != kEntryVersionWide) {
      throw Error(ErrorCode::kIndexEntryVersion, fmt::format("entry version {} is not 1 or 5", version), version_at);
    }
    entry.wide_dimensions = version == kEntryVersionWide;
  }
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
  decode_dimensions(reader.take(entry.shape_bytes(), "a shape"), entry);
  at(entry.header_offset_at);
  entry.header_offset = reader.integer<std::uint64_t>("a header offset");
  at(entry.data_offset_at);
  entry.data_offset = reader.integer<std::uint64_t>("a data offset");
  at(entry.data_length_at);
  entry.data_length = reader.integer<std::uint64_t>("a data length");
}

void encode_index_entry(ByteWriter& writer, Layout layout, const TensorFields& tensor, std::uint64_t header_offset,
                        std::uint64_t data_offset) {
  TZMARK_REQUIRES(tensor.name.size() <= 65535 && tensor.dtype.size() <= 255);
  TZMARK_REQUIRES(has_entry_versions(layout) || !tensor.wide_dimensions);
  if (has_entry_versions(layout)) writer.integer(tensor.wide_dimensions ? kEntryVersionWide : kEntryVersionNarrow);
  writer.text<std::uint16_t>(tensor.name);
  writer.integer(static_cast<std::uint8_t>(tensor.kind));
  writer.text<std::uint8_t>(tensor.dtype);
  writer.integer(tensor.dimension_count);
  encode_dimensions(writer, tensor);
  writer.integer(header_offset);
  writer.integer(data_offset);
  writer.integer(tensor.data_length);
}

std::size_t index_entry_bytes(Layout layout, const TensorFields& tensor) {
  return kIndexEntryBytesMin + (has_entry_versions(layout) ? kEntryVersionBytes : 0) + tensor.name.size() +
         tensor.dtype.size() + tensor.shape_bytes();
}

}  // namespace tzmark
