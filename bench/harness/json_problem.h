// The text of an error of the JSON library, without the names and numbers of its own exceptions.
#pragma once

#include <exception>
#include <string>
#include <string_view>

namespace tzmark::bench {

// "[json.exception.type_error.302] type must be ..." becomes "type must be ...". Takes any exception.
inline std::string json_problem(const std::exception& error) {
  constexpr std::string_view kBegin = "[json.exception.";
  const std::string_view text = error.what();
  const std::size_t end = text.find("] ");
  return std::string(text.starts_with(kBegin) && end != text.npos ? text.substr(end + 2) : text);
}

}  // namespace tzmark::bench
