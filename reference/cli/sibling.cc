// Running another program of tzmark.
#include "cli/sibling.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "program/installation.h"
#include "tzmark/error.h"

namespace tzmark::cli {

void become_sibling(const std::string& program, char* const* arguments) {
  const std::string path = sibling_directory() / program;
  ::execv(path.c_str(), arguments);
  const int error = errno;
  throw Error(ErrorCode::kUnavailable, fmt::format("{}: {}", path, std::generic_category().message(error)));
}

}  // namespace tzmark::cli
