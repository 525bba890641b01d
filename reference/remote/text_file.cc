// See remote/text_file.h.
#include "remote/text_file.h"

#include <fmt/format.h>

#include <span>

#include "io/paths.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {

std::string read_text_file(const std::string& file_name, std::size_t bytes_max) {
  const auto file = open_file(open_descriptor(file_name, OpenMode::kRead), file_name, OpenMode::kRead, "pwrite");
  if (file->size() > bytes_max) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("it has more than {} bytes", bytes_max));
  }
  std::string text(file->size(), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace tzmark
