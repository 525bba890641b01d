// Opens the file of a question: a whole file, a pipe, or a range of a larger file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tzmark/io.h"

namespace tzmark::adapter {

struct FileRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};

// Reads a pipe to its end first. Throws tzmark::Error, also if the file ends before the range.
std::unique_ptr<File> open_question_file(const std::string& file_name, const std::optional<FileRange>& part);

}  // namespace tzmark::adapter
