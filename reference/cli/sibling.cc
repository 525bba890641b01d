// Running another program of tzmark.
#include "cli/sibling.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "program/installation.h"
#include "tzmark/error.h"

namespace tzmark::cli {

void become_sibling(const std::string& program, char* const* arguments) {
  std::string path;
  try {
    path = sibling_directory() / program;
  } catch (const std::filesystem::filesystem_error& error) {
    throw Error(ErrorCode::kUnavailable,
                fmt::format("{} is found next to /proc/self/exe: {}", program, error.code().message()));
  }
  ::execv(path.c_str(), arguments);
  const int error = errno;
  throw Error(ErrorCode::kUnavailable, fmt::format("{}: {}", path, std::generic_category().message(error)));
}

}  // namespace tzmark::cli
