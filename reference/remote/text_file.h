// Reads a small file of settings as text.
#pragma once

#include <cstddef>
#include <string>

namespace tzmark {

// Throws TZE-ENV-00x for what is no regular file, and for one with more than bytes_max.
std::string read_text_file(const std::string& file_name, std::size_t bytes_max);

}  // namespace tzmark
