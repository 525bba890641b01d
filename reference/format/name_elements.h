// Parsing and serializing the elements of structured names. Parsing delivers one element at a time, since a list of
// them takes many times the memory of the name.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "tzmark/path.h"

namespace tzmark {

// Calls take for each element of a structured name as stored, in order. Throws as parse_name does, possibly after some
// calls.
void for_each_element(std::string_view wire, std::uint64_t file_offset, const std::function<void(PathElement&&)>& take);

// Returns the structured name of a path, even of a path of one string; none if a string is not UTF-8.
std::optional<std::string> structured_name(const Path& path);

}  // namespace tzmark
