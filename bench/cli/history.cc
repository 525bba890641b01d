// Runs tzmark history, a Python program of share/tzmark/reports; see bench_commands.h.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "cli/bench_commands.h"
#include "tzmark/error.h"

namespace tzmark::bench {

void become_history(std::vector<std::string> options) {
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path program = (self.parent_path() / "../share/tzmark/reports/history.py").lexically_normal();
  // Python itself would exit with 2, the status for wrong usage.
  if (!std::filesystem::exists(program)) {
    throw Error(ErrorCode::kUnavailable, fmt::format("{}: no such file", program.string()));
  }
  const char* const chosen = std::getenv("TZMARK_PYTHON");
  std::vector<std::string> command{chosen != nullptr ? chosen : "python3", "-B", program.string()};
  command.insert(command.end(), options.begin(), options.end());
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
  const int error = errno;
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot run {}: {}; tzmark history needs Python 3.10 or newer, with the packages that "
                          "scripts/setup installs. TZMARK_PYTHON names another interpreter",
                          command.front(), std::generic_category().message(error)));
}

}  // namespace tzmark::bench
