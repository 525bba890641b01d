// Refuses URLs where a command takes only files and directories of this machine, so that none is created by that name.
//
// Thread-safety: a pure function.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace tzmark {

// For CLI11's check: returns what is wrong, or an empty text.
inline std::string why_not_local(const std::string& name) {
  std::string begin = name.substr(0, name.find("://"));
  std::ranges::transform(begin, begin.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const bool is_url = begin.size() < name.size() && (begin == "http" || begin == "https" || begin == "s3");
  return is_url ? "a URL, but a file or directory of this machine is needed" : "";
}

}  // namespace tzmark
