// The element types of safetensors, and their names in torch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tzmark::safetensors {

struct DtypeRow {
  std::string_view name;        // in headers
  std::string_view torch_name;  // empty for elements of less than a byte, which .tensors files cannot hold
  unsigned bits;                // per element
};

// All dtypes in the order of the format, by which a writer sorts in descending order.
std::span<const DtypeRow> dtypes();

// Return positions in dtypes().
std::optional<std::uint8_t> find_dtype(std::string_view name);
std::optional<std::uint8_t> find_torch_dtype(std::string_view torch_name);

// Returns the number of bits of all elements; none if that is 2^64 or more. Multiplies in the order of the dimensions,
// as the reference library does: a zero does not undo an earlier overflow.
std::optional<std::uint64_t> bits_of(std::span<const std::uint64_t> shape, std::uint8_t dtype);

}  // namespace tzmark::safetensors
