// What the page cache holds of a file. Thread-safe.
#pragma once

#include <optional>
#include <string>

namespace tzmark {

// Returns whether the page cache holds at least half of a file, by a sample of its pages. Nothing if the system does
// not tell, or if there is no such file.
std::optional<bool> is_cached(const std::string& file_name);

}  // namespace tzmark
