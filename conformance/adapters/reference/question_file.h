// Opens the file that a question is about: a whole one, one that comes through a pipe, or a part of a larger one.
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

// A pipe is read to its end first. Throws tzmark::Error, also if the file ends before the part does.
std::unique_ptr<File> open_source(const std::string& file_name, const std::optional<FileRange>& part);

}  // namespace tzmark::adapter
