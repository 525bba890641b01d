// The text of an error of the JSON library, without the names and numbers of its own exceptions.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace tzmark {

// "[json.exception.parse_error.101] parse error at line 1, ..." becomes "parse error at line 1, ...". Takes any
// exception.
inline std::string json_problem(const std::exception& error) {
  constexpr std::string_view kBegin = "[json.exception.";
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return std::string(text.starts_with(kBegin) && end != text.npos ? text.substr(end + 2) : text);
}

}  // namespace tzmark
