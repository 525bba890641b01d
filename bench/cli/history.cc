// Runs tzmark history and tzmark report, Python programs of share/tzmark/reports; see bench_commands.h.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "cli/bench_commands.h"
#include "program/installation.h"
#include "program/python_path.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

[[noreturn]] void become_python(const char* file, const char* name, std::vector<std::string> options) {
  const std::filesystem::path program = data_directory() / "reports" / file;
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
  keep_python_from_current_directory();
  ::execvp(arguments.front(), arguments.data());
  const int error = errno;
  throw Error(ErrorCode::kUnavailable,
              fmt::format("cannot run {}: {}; tzmark {} needs Python 3.10 or newer, with the packages that "
                          "scripts/setup installs. TZMARK_PYTHON names another interpreter",
                          command.front(), std::generic_category().message(error), name));
}

}  // namespace

void become_history(std::vector<std::string> options) {
  become_python("find_changes.py", "history", std::move(options));
}

void become_report(std::vector<std::string> options) { become_python("report.py", "report", std::move(options)); }

}  // namespace tzmark::bench
