// How values of fields look to a person, and UTF-8.
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

// In single quotation marks, on one line, long texts cut; bytes that cannot be shown as \x1e.
std::string in_quotes(std::string_view text);

// "0c 12 8e", or with more than 16 bytes the first and the last four and how many there are.
std::string hex_folded(Bytes bytes);

// "0c128e"
std::string hex_digits(Bytes bytes);

}  // namespace tzmark::conformance::model
