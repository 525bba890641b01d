// The dtypes of safetensors (SAFETENSORS.md 4).
//
// Thread-safety: constant.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tzmark::conformance::safetensors {

struct Dtype {
  std::string_view name;
  std::uint64_t bits;
  std::string_view torch;  // empty: torch has no such type
};

// In the order of the format.
std::span<const Dtype> dtypes();

// Null if there is none of that name.
const Dtype* dtype_of(std::string_view name);

}  // namespace tzmark::conformance::safetensors
