// tzmark-bench: the subcommands of tzmark that measure. Run by tzmark, its sibling.
//
// Exit status: 0 fine, 1 a check failed or a regression, 2 wrong usage, 3 the environment failed, 4 not available on
// this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <new>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "program/arguments.h"
#include "program/standard_streams.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/version.h"

namespace tzmark::bench {

namespace {

constexpr int kExitEnvironment = 3;

int fail(int status, const char* what) {
  tell(fmt::format("tzmark: {}", what));
  return status;
}

int run(int argc, char** argv) {
  CLI::App app("Measures I/O paths, the codec on top of them, and others beside it.", "tzmark");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  // tzmark runs this program under the name of the command that was asked for.
  std::vector<std::string> words(argv, argv + argc);
  if (words.front() != "bench" && words.front() != "compare") words.erase(words.begin());
  std::vector<std::string> command = {"tzmark"};
  command.insert(command.end(), words.begin(), words.end());
  int status = 0;
  add_bench(app, command, status);
  add_compare(app, status);
  try {
    open_standard_streams();
    std::vector<const char*> arguments;
    for (const std::string& word : command) arguments.push_back(word.c_str());
    const Parsed parsed = parse(app, static_cast<int>(arguments.size()), arguments.data());
    if (!parsed.problem.empty()) throw Error(ErrorCode::kUsage, parsed.problem);
    print(parsed.help);
    return status;
  } catch (const Error& error) {
    return fail(static_cast<int>(error.error_class()), error.what());
  } catch (const std::bad_alloc&) {
    return fail(kExitEnvironment, "error: out of memory");
  } catch (const std::exception& error) {
    return fail(kExitEnvironment, error.what());
  }
}

}  // namespace
}  // namespace tzmark::bench

int main(int argc, char** argv) {
  tzmark::remove_temporary_files_at_signals();
  return tzmark::bench::run(argc, argv);
}
