// tzmark-bench: the subcommands of tzmark that measure. tzmark runs it as `tzmark bench`, `tzmark tune`,
// `tzmark compare`, `tzmark history` and `tzmark report`.
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
  tzmark::catch_bus_errors();
  CLI::App app("Measures I/O paths, the codec on top of them, and other implementations.", "tzmark");
  app.set_version_flag("--version", tzmark::version_text());
  app.require_subcommand(1);
  // tzmark passes the name of the subcommand as argv[0].
  std::vector<std::string> command(argv, argv + argc);
  if (const std::string& name = command.front();
      name == "bench" || name == "tune" || name == "compare" || name == "history" || name == "report") {
    command.insert(command.begin(), "");
  }
  command.front() = "tzmark";
  int status = 0;
  tzmark::bench::add_bench(app, command, status);
  tzmark::bench::add_tune(app, command);
  tzmark::bench::add_compare(app, status);
  app.add_subcommand("history", "Find change points in a directory of results of bench");
  app.add_subcommand("report", "Render results of bench and comparisons as a page with figures");
  std::vector<std::string> options;
  const bool is_history = command.size() > 1 && command[1] == "history";
  const bool is_report = command.size() > 1 && command[1] == "report";
  const bool is_cluster = command.size() > 2 && command[1] == "bench" && command[2] == "cluster";
  if (is_cluster) command.resize(3);
  if (is_history || is_report) {
    // The program that it becomes parses them.
    options.assign(command.begin() + 2, command.end());
    command.resize(2);
  }
  return tzmark::bench::run_program(app, command, [&] {
    if (is_history) tzmark::bench::become_history(std::move(options));
    if (is_report) tzmark::bench::become_report(std::move(options));
    if (is_cluster) tzmark::bench::become_cluster(argv);
    return status;
  });
}
