// The environment variable TZMARK_SIMD, which forces one kind of kernel on everything that has several.
#pragma once

#include <optional>
#include <string_view>

namespace tzmark::simd {

// Returns the value of TZMARK_SIMD, if it is set.
std::optional<std::string_view> forced_kernel();

// Checks a value of TZMARK_SIMD and returns it. Throws Error kUsage if it is not none, avx2, avx512, sha-ni or sha2.
std::string_view parse_forced(std::string_view value);

// Throws Error kUnavailable: the machine lacks what TZMARK_SIMD asks for.
[[noreturn]] void throw_forced_unavailable(std::string_view name);

}  // namespace tzmark::simd
