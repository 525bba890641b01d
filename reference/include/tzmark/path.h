// Tensor names. A path is a list of strings (keys) and integers (list indices); a plain name is a path of one string.
//
// Thread-safety: all functions are thread-safe. Errors: Error with a TZR-NAM rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tzmark {

using PathElement = std::variant<std::string, std::uint64_t>;
using Path = std::vector<PathElement>;

// A structured name starts with this byte, the record separator of JSON text sequences.
inline constexpr char kStructuredNameMark = '\x1e';

// Parses a name as stored in a file. Errors carry the given file offset.
Path parse_name(std::string_view wire, std::uint64_t file_offset = 0);

// Returns the name that a file stores for a path: plain for one string, else structured, compact and in ASCII.
// Throws TZR-NAM-009 for a name that writers refuse: an empty one, or a plain one that would be parsed as structured.
std::string serialize_name(const Path& path);

// Formats a path for people: elements joined by dots, list indices in brackets.
std::string display_path(const Path& path);

}  // namespace tzmark
