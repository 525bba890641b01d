// Suggests the name that was most likely meant.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tzmark::conformance {

// "; did you mean 'list'?" for the name with the smallest edit distance; empty if no name is near.
std::string suggestion(std::string_view word, const std::vector<std::string>& names);

}  // namespace tzmark::conformance
