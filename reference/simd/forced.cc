// Parses TZMARK_SIMD.
#include "simd/forced.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tzmark/error.h"

namespace tzmark::simd {

std::string_view parse_forced(std::string_view name) {
  constexpr std::array<std::string_view, 4> kNames = {"none", "avx2", "avx512", "sha-ni"};
  if (std::ranges::find(kNames, name) == kNames.end()) {
    throw Error(ErrorCode::kUsage, fmt::format("TZMARK_SIMD is \"{}\", not none, avx2, avx512 or sha-ni", name));
  }
  return name;
}

void throw_forced_unavailable(std::string_view name) {
  throw Error(ErrorCode::kUnavailable, fmt::format("TZMARK_SIMD asks for {}, which this machine lacks", name));
}

}  // namespace tzmark::simd
