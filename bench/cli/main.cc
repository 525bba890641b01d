// tzmark-bench: the subcommands of tzmark that measure. tzmark runs it as `tzmark bench` and `tzmark compare`.
//
// Exit status: 0 success, 1 a check failed or a regression, 2 wrong usage, 3 the environment failed, 4 not available on
// this machine.
#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/bench_commands.h"
#include "cli/run_program.h"
#include "tzmark/version.h"

int main(int argc, char** argv) {
  tzmark::remove_temporary_files_at_signals();
  CLI::App app("Measures I/O paths, the codec on top of them, and other implementations.", "tzmark");
  app.set_version_flag("--version", tzmark::version_text());
  app.require_subcommand(1);
  // tzmark passes the name of the subcommand as argv[0].
  std::vector<std::string> command(argv, argv + argc);
  if (command.front() == "bench" || command.front() == "compare") command.insert(command.begin(), "");
  command.front() = "tzmark";
  int status = 0;
  tzmark::bench::add_bench(app, command, status);
  tzmark::bench::add_compare(app, status);
  return tzmark::bench::run_program(app, command, [&] { return status; });
}
