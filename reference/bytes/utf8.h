// UTF-8 validation, after table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tzmark {

// Returns the position of the first byte that is not part of a well-formed sequence; none if all are.
std::optional<std::size_t> find_invalid_utf8(std::string_view text) noexcept;

// Makes text of a hostile file safe for a terminal and for one line: replaces control and format characters, line
// separators, invisible characters and invalid UTF-8 by escapes like \x1e. Idempotent.
std::string printable(std::string_view text);

}  // namespace tzmark
