// The table of dtypes.
#include "safetensors/dtypes.h"

#include <algorithm>
#include <array>

namespace tzmark::safetensors {
namespace {

constexpr std::array kDtypes = {
    DtypeRow{"BOOL", "bool", 8},
    DtypeRow{"F4", "", 4},
    DtypeRow{"F6_E2M3", "", 6},
    DtypeRow{"F6_E3M2", "", 6},
    DtypeRow{"U8", "uint8", 8},
    DtypeRow{"I8", "int8", 8},
    DtypeRow{"F8_E5M2", "float8_e5m2", 8},
    DtypeRow{"F8_E4M3", "float8_e4m3fn", 8},
    DtypeRow{"F8_E8M0", "float8_e8m0fnu", 8},
    DtypeRow{"F8_E4M3FNUZ", "float8_e4m3fnuz", 8},
    DtypeRow{"F8_E5M2FNUZ", "float8_e5m2fnuz", 8},
    DtypeRow{"I16", "int16", 16},
    DtypeRow{"U16", "uint16", 16},
    DtypeRow{"F16", "float16", 16},
    DtypeRow{"BF16", "bfloat16", 16},
    DtypeRow{"I32", "int32", 32},
    DtypeRow{"U32", "uint32", 32},
    DtypeRow{"F32", "float32", 32},
    DtypeRow{"C64", "complex64", 64},
    DtypeRow{"F64", "float64", 64},
    DtypeRow{"I64", "int64", 64},
    DtypeRow{"U64", "uint64", 64},
};

std::optional<std::uint8_t> find(std::string_view wanted, std::string_view DtypeRow::*field) {
  // An empty name means that there is none.
  if (wanted.empty()) return std::nullopt;
  const auto row = std::ranges::find(kDtypes, wanted, field);
  if (row == kDtypes.end()) return std::nullopt;
  return static_cast<std::uint8_t>(row - kDtypes.begin());
}

}  // namespace

std::span<const DtypeRow> dtypes() { return kDtypes; }

std::optional<std::uint8_t> find_dtype(std::string_view name) { return find(name, &DtypeRow::name); }

std::optional<std::uint8_t> find_torch_dtype(std::string_view torch_name) {
  return find(torch_name, &DtypeRow::torch_name);
}

std::optional<std::uint64_t> bits_of(std::span<const std::uint64_t> shape, std::uint8_t dtype) {
  std::uint64_t product = 1;
  for (const std::uint64_t dimension : shape) {
    if (__builtin_mul_overflow(product, dimension, &product)) return std::nullopt;
  }
  if (__builtin_mul_overflow(product, std::uint64_t{kDtypes[dtype].bits}, &product)) return std::nullopt;
  return product;
}

}  // namespace tzmark::safetensors
