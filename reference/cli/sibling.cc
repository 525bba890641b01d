// Running another program of tzmark.
#include "cli/sibling.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "tzmark/error.h"

namespace tzmark::cli {

void become_sibling(const std::string& program, char* const* arguments) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::string path = (self.parent_path() / program).lexically_normal();
  ::execv(path.c_str(), arguments);
  const int error = errno;
  throw Error(ErrorCode::kUnavailable, fmt::format("{}: {}", path, std::generic_category().message(error)));
}

}  // namespace tzmark::cli
