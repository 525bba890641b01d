// The dtypes of safetensors; see dtypes.h.
#include "safetensors_model/dtypes.h"

#include <algorithm>
#include <array>

namespace tzmark::conformance::safetensors {
namespace {

constexpr std::array kDtypes = {
    Dtype{"BOOL", 8, "bool"},
    Dtype{"F4", 4, ""},
    Dtype{"F6_E2M3", 6, ""},
    Dtype{"F6_E3M2", 6, ""},
    Dtype{"U8", 8, "uint8"},
    Dtype{"I8", 8, "int8"},
    Dtype{"F8_E5M2", 8, "float8_e5m2"},
    Dtype{"F8_E4M3", 8, "float8_e4m3fn"},
    Dtype{"F8_E8M0", 8, "float8_e8m0fnu"},
    Dtype{"F8_E4M3FNUZ", 8, "float8_e4m3fnuz"},
    Dtype{"F8_E5M2FNUZ", 8, "float8_e5m2fnuz"},
    Dtype{"I16", 16, "int16"},
    Dtype{"U16", 16, "uint16"},
    Dtype{"F16", 16, "float16"},
    Dtype{"BF16", 16, "bfloat16"},
    Dtype{"I32", 32, "int32"},
    Dtype{"U32", 32, "uint32"},
    Dtype{"F32", 32, "float32"},
    Dtype{"C64", 64, "complex64"},
    Dtype{"F64", 64, "float64"},
    Dtype{"I64", 64, "int64"},
    Dtype{"U64", 64, "uint64"},
};

}  // namespace

std::span<const Dtype> dtypes() { return kDtypes; }

const Dtype* dtype_of(std::string_view name) {
  const auto* const found = std::ranges::find(kDtypes, name, &Dtype::name);
  return found == kDtypes.end() ? nullptr : found;
}

}  // namespace tzmark::conformance::safetensors
