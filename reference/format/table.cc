// The list of tensors.
#include "tzmark/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "tzmark/error.h"

namespace tzmark {

bool TensorInfo::meta() const { return data_length == 0 && std::ranges::find(shape, std::uint64_t{0}) == shape.end(); }

TensorFields TensorInfo::fields() const {
  TensorFields fields;
  fields.kind = kind;
  fields.name = name;
  fields.dtype = dtype.wire;
  fields.wide_dimensions = wide_dimensions;
  fields.dimension_count = static_cast<std::uint8_t>(shape.size());
  std::ranges::copy(shape, fields.dimensions.begin());
  fields.data_length = data_length;
  return fields;
}

TensorInfo TensorTable::operator[](std::size_t i) const {
  const Row& r = rows_[i];
  return {std::string_view(names_).substr(r.name_begin, r.name_length),
          dtypes_[r.dtype],
          std::span(dimensions_).subspan(r.shape_begin, r.dimension_count),
          r.data_length,
          r.header_offset,
          r.data_offset,
          r.module_index,
          r.kind,
          r.wide_dimensions};
}

void TensorTable::add(const Path& path, Kind kind, const Dtype& dtype, std::span<const std::uint64_t> shape, bool meta,
                      std::uint16_t module_index) {
  const std::string name = serialize_name(path);
  if (name.size() > 65535)
    throw Error(ErrorCode::kUsage, fmt::format("a name of {} bytes exceeds the maximum of 65535", name.size()));
  if (name.starts_with(kStructuredNameMark) && kind != Kind::kStateDict) {
    throw Error(ErrorCode::kNameKind, fmt::format("{} is a path of several elements", display_path(path)));
  }
  if (shape.size() > kMaxDimensions) {
    throw Error(ErrorCode::kUsage,
                fmt::format("a shape of {} dimensions exceeds the maximum of {}", shape.size(), kMaxDimensions));
  }
  const auto bytes = nominal_bytes(shape, dtype.item_bytes);
  if (!bytes) throw Error(ErrorCode::kIndexShapeOverflow, fmt::format("{} is too large", display_path(path)));
  const bool wide = std::ranges::any_of(shape, [](std::uint64_t dimension) { return dimension >> 32 != 0; });
  append(name, shape, dtype, {0, 0, meta ? 0 : *bytes, 0, 0, 0, 0, module_index, 0, kind, wide});
}

void TensorTable::add(const IndexEntry& entry, const Dtype& dtype) {
  append(
      entry.name, entry.shape(), dtype,
      {entry.header_offset, entry.data_offset, entry.data_length, 0, 0, 0, 0, 0, 0, entry.kind, entry.wide_dimensions});
}

void TensorTable::reserve_like(const TensorTable& other) {
  rows_.reserve(other.rows_.size());
  names_.reserve(other.names_.size());
  dimensions_.reserve(other.dimensions_.size());
}

void TensorTable::shrink_to_fit() {
  rows_.shrink_to_fit();
  names_.shrink_to_fit();
  dimensions_.shrink_to_fit();
}

void TensorTable::append(std::string_view name, std::span<const std::uint64_t> shape, const Dtype& dtype, Row row) {
  row.name_begin = names_.size();
  row.name_length = static_cast<std::uint16_t>(name.size());
  row.shape_begin = dimensions_.size();
  row.dimension_count = static_cast<std::uint8_t>(shape.size());
  row.dtype = intern(dtype);
  names_ += name;
  dimensions_.insert(dimensions_.end(), shape.begin(), shape.end());
  rows_.push_back(row);
}

std::uint32_t TensorTable::intern(const Dtype& dtype) {
  const auto found = dtype_numbers_.find(dtype.wire);
  if (found != dtype_numbers_.end()) return found->second;
  const auto number = static_cast<std::uint32_t>(dtypes_.size());
  dtypes_.push_back(dtype);
  dtype_numbers_.emplace(dtype.wire, number);
  return number;
}

}  // namespace tzmark
