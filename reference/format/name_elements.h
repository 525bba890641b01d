// The elements of structured names as they are parsed, one at a time: a list of them takes many times the name's room.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "tzmark/path.h"

namespace tzmark {

// Calls take for each element of a stored name that is structured, in order. Throws Error as parse_name does, perhaps
// after some calls.
void for_each_element(std::string_view wire, std::uint64_t file_offset, const std::function<void(PathElement&&)>& take);

}  // namespace tzmark
