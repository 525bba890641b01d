// UTF-8 validation, after table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tzmark {

// Position of the first byte that does not belong to a well-formed sequence.
std::optional<std::size_t> find_invalid_utf8(std::string_view text) noexcept;

// Text of a hostile file, or a name, made safe for a terminal and for one line: control and format characters, line
// separators, what shows nothing, and bytes that are not UTF-8 become escapes like \x1e. Applied twice, it changes
// nothing more.
std::string printable(std::string_view text);

}  // namespace tzmark
