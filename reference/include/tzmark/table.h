// A compact list of tensors: what the reader finds in a file and what the writer is asked to write.
//
// About 60 bytes a tensor beside its name and shape, so that a million tensors are no burden. Views that a table hands
// out stay valid until it is changed or destroyed. Reading is thread-safe, changing is not.
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
  std::uint64_t header_offset;  // 0 in a table that is to be written
  std::uint64_t data_offset;
  std::uint16_t module_index;
  Kind kind;
  bool wide_dimensions;  // a file stores them so, or has to

  // A tensor with elements but without data: its content is zeros that nobody stored.
  bool meta() const;
  Path path() const { return parse_name(name); }
  // The same as the wire structures want it; the views point into the table.
  TensorFields fields() const;
};

class TensorTable {
 public:
  std::size_t size() const { return records_.size(); }
  TensorInfo operator[](std::size_t i) const;

  // The data of a tensor that is not meta has nominal_bytes(shape, item_bytes) bytes.
  // Throws kUsage if shape has more than kMaxDimensions, or a size of 2^63 bytes and more.
  void add(const Path& path, Kind kind, const Dtype& dtype, std::span<const std::uint64_t> shape, bool meta = false,
           std::uint16_t module_index = 0);

  // Makes room for as much as the other table holds, so that filling this one does not overshoot.
  void reserve_like(const TensorTable& other);
  // Gives back what growing has overshot.
  void shrink_to_fit();

  // For readers: takes an entry as it stands in a file.
  void add(const IndexEntry& entry, const Dtype& dtype);

 private:
  struct Record {
    std::uint64_t header_offset, data_offset, data_length;
    std::uint64_t name_begin, shape_begin;
    std::uint32_t dtype;
    std::uint16_t name_length, module_index;
    std::uint8_t dimension_count;
    Kind kind;
    bool wide_dimensions;
  };

  std::uint32_t intern(const Dtype& dtype);
  void append(std::string_view name, std::span<const std::uint64_t> shape, const Dtype& dtype, Record record);

  std::vector<Record> records_;
  std::string names_;
  std::vector<std::uint64_t> dimensions_;
  std::vector<Dtype> dtypes_;
  std::map<std::string, std::uint32_t, std::less<>> dtype_numbers_;
};

}  // namespace tzmark
