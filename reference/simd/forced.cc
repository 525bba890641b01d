// Parses TZMARK_SIMD.
#include "simd/forced.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "tzmark/error.h"

namespace tzmark::simd {

std::optional<std::string_view> forced_kernel() {
  const char* const value = std::getenv("TZMARK_SIMD");
  return value == nullptr ? std::nullopt : std::optional<std::string_view>(value);
}

std::string_view parse_forced(std::string_view value) {
  constexpr std::array<std::string_view, 5> kNames = {"none", "avx2", "avx512", "sha-ni", "sha2"};
  if (std::ranges::find(kNames, value) == kNames.end()) {
    throw Error(ErrorCode::kUsage, fmt::format("TZMARK_SIMD is \"{}\", not none, avx2, avx512, sha-ni or sha2", value));
  }
  return value;
}

void throw_forced_unavailable(std::string_view name) {
  throw Error(ErrorCode::kUnavailable, fmt::format("TZMARK_SIMD asks for {}, which this machine lacks", name));
}

}  // namespace tzmark::simd
