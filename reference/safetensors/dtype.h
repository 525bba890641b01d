// The element types of safetensors, and how torch calls them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tzmark::safetensors {

struct DtypeRow {
  std::string_view name;        // as headers spell it
  std::string_view torch_name;  // empty for what .tensors files cannot hold: elements of less than a byte
  unsigned bits;                // of an element
};

// All dtypes, in the format's own order: a writer sorts by it, last one first.
std::span<const DtypeRow> dtypes();

// Positions in dtypes().
std::optional<std::uint8_t> find_dtype(std::string_view name);
std::optional<std::uint8_t> find_torch_dtype(std::string_view torch_name);

// Number of bits that the elements take; nothing if that is 2^64 or more. Multiplies as the reference library does,
// from the first dimension on: a zero does not take back an overflow before it.
std::optional<std::uint64_t> bits_of(std::span<const std::uint64_t> shape, std::uint8_t dtype);

}  // namespace tzmark::safetensors
