// Tensor names. A path is a list of strings and list positions; a plain name is a path of one string.
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

// Parses a stored name. Throws Error with a TZR-NAM rule and the given file offset.
Path parse_name(std::string_view wire, std::uint64_t file_offset = 0);

// The stored name of a path: plain for one string, else structured, compact and in ASCII.
// Throws TZR-NAM-009 for what a writer refuses: an empty name, or a plain one that would be read as structured.
std::string serialize_name(const Path& path);

// For people: elements joined by dots, list positions in brackets.
std::string display_path(const Path& path);

}  // namespace tzmark
