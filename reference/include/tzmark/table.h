// A compact list of tensors: what a reader finds in a file, and what a writer is asked to write.
//
// A tensor takes about 60 bytes in addition to its name and shape, so that a table may hold a million of them.
// Thread-safety: const calls are thread-safe. Views into a table are valid until it is changed or destroyed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/format.h"

namespace tzmark {

struct TensorInfo {
  std::string_view name;  // as stored: plain, or structured with its leading byte 1E
  const Dtype& dtype;
  std::span<const std::uint64_t> shape;
  std::uint64_t data_length;
  std::uint64_t header_offset;  // 0 in a table to be written
  std::uint64_t data_offset;
  std::uint16_t module_index;
  Kind kind;
  bool wide_dimensions;  // stored as u64 each, or must be

  // Whether the tensor has elements but no stored data; it is read as zeros.
  bool meta() const;
  Path path() const { return parse_name(name); }
  // The same tensor in the form that format.h encodes. The views point into the table.
  TensorFields fields() const;
};

class TensorTable {
 public:
  std::size_t size() const { return rows_.size(); }
  TensorInfo operator[](std::size_t i) const;

  // Adds a tensor with nominal_bytes(shape, item_bytes) bytes of data, or none if it is meta.
  // Throws kUsage if shape has more than kMaxDimensions dimensions, or the size is 2^63 bytes or more.
  void add(const Path& path, Kind kind, const Dtype& dtype, std::span<const std::uint64_t> shape, bool meta = false,
           std::uint16_t module_index = 0);

  // Allocates as much memory as the other table uses.
  void reserve_like(const TensorTable& other);
  // Releases memory that growing allocated in excess.
  void shrink_to_fit();

  // Adds an index entry of a file as it is; for readers.
  void add(const IndexEntry& entry, const Dtype& dtype);

 private:
  struct Row {
    std::uint64_t header_offset, data_offset, data_length;
    std::uint64_t name_begin, shape_begin;
    std::uint32_t dtype;
    std::uint16_t name_length, module_index;
    std::uint8_t dimension_count;
    Kind kind;
    bool wide_dimensions;
  };

  std::uint32_t intern(const Dtype& dtype);
  void append(std::string_view name, std::span<const std::uint64_t> shape, const Dtype& dtype, Row row);

  std::vector<Row> rows_;
  std::string names_;
  std::vector<std::uint64_t> dimensions_;
  std::vector<Dtype> dtypes_;
  std::map<std::string, std::uint32_t, std::less<>> dtype_numbers_;
};

}  // namespace tzmark
