// Formats values of fields for display, and checks UTF-8.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "model/model.h"

namespace tzmark::conformance::model {

// REQUIRES: at most 8 bytes.
std::uint64_t little_endian(Bytes bytes);

std::string_view text_of(Bytes bytes);

// Well-formed UTF-8: no overlong form, no surrogate, nothing above 10FFFF.
bool is_utf8(std::string_view text);

// In single quotes, on one line, cut if long; unprintable bytes become escapes such as \x1e.
std::string in_quotes(std::string_view text);

// "0c 12 8e", or with more than 16 bytes the first and the last four and how many there are.
std::string hex_folded(Bytes bytes);

// "0c128e"
std::string hex_digits(Bytes bytes);

// Parses 64 hexadecimal digits. Throws std::runtime_error for other text.
std::array<std::uint8_t, 32> key_of_hex(const std::string& digits);

}  // namespace tzmark::conformance::model
