// SHA-256 of files, by which the corpus identifies them, and of text, from which specifications generate data.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace tzmark::conformance {

// 64 lower-case hexadecimal digits.
std::string sha256_of(std::span<const std::byte> bytes);

// The 32 bytes themselves.
std::string sha256_digest(std::string_view text);

}  // namespace tzmark::conformance
