// Parses, checks and serializes the header of a safetensors file. No system calls.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/safetensors.h"

namespace tzmark::safetensors {

inline constexpr std::uint64_t kLengthBytes = 8;
inline constexpr std::uint64_t kHeaderBytesMax = 100'000'000;
inline constexpr std::string_view kMetadataKey = "__metadata__";

using Metadata = std::map<std::string, std::string>;

// The tensors of one file, in the order of their data. A tensor takes about 45 bytes in addition to its name and shape.
class Listing {
 public:
  struct Tensor {
    std::uint64_t begin = 0, end = 0;
    std::uint32_t name_begin = 0, name_length = 0;
    std::uint32_t shape_begin = 0, dimension_count = 0;
    std::uint32_t key_at = 0;  // in the header
    std::uint8_t dtype = 0;    // position in dtypes()
  };

  std::size_t size() const { return tensors_.size(); }
  const Tensor& operator[](std::size_t i) const { return tensors_[i]; }
  std::string_view name(const Tensor& tensor) const {
    return std::string_view(names_).substr(tensor.name_begin, tensor.name_length);
  }
  std::span<const std::uint64_t> shape(const Tensor& tensor) const {
    return std::span(dimensions_).subspan(tensor.shape_begin, tensor.dimension_count);
  }
  std::optional<std::size_t> find(std::string_view name) const;
  std::uint64_t data_bytes() const { return tensors_.empty() ? 0 : tensors_.back().end; }

 private:
  friend class HeaderParser;

  std::vector<Tensor> tensors_;
  std::vector<std::uint32_t> by_name_;  // the tensors, sorted by name
  std::string names_;
  std::vector<std::uint64_t> dimensions_;
};

struct Header {
  Listing listing;
  Metadata metadata;
};

// Checks the first bytes of a file, at least 8 unless the file is shorter, and returns the length of the header.
// Throws ST-001 to ST-003.
std::uint64_t check_header_length(std::span<const std::byte> bytes, std::uint64_t file_bytes);

// text: the header, without the length before it. Throws ST-004 to ST-015.
Header parse_header(std::string_view text, std::uint64_t file_bytes, SafetensorsProfile profile);

// The entry of one tensor in a header.
struct HeaderEntry {
  std::string_view name;
  std::uint8_t dtype;
  std::span<const std::uint64_t> shape;
  std::uint64_t begin, end;
};

// Serializes a header as the reference library does: compact, padded with spaces to a multiple of 8. The metadata comes
// first, then the tensors in order. Each call throws ST-018 as soon as the header is too long.
class HeaderText {
 public:
  // text_bytes: the approximate length.
  HeaderText(const Metadata& metadata, std::size_t text_bytes);
  void add(const HeaderEntry& entry);
  // Returns the length and the header, as the file begins.
  std::string finish() &&;

 private:
  void check_length() const;

  std::string text_;
};

}  // namespace tzmark::safetensors
