// tzmark-conform: runs the conformance suite on an adapter and reports what came of it.
//
// Exit status: 0 all cases passed; 1 a case failed, or none ran; 2 wrong usage; 3 the environment failed (corpus
// missing or changed, adapter not startable, report not writable); 4 the HTML page cannot be made on this machine.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "adapter.h"
#include "command_line.h"
#include "errors.h"
#include "manifest.h"
#include "page.h"
#include "report.h"
#include "suite.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

// Set by SIGINT and SIGTERM: children are in process groups of their own, so the runner has to end them.
std::atomic<bool> cancelled = false;
std::atomic<int> cancelling_signal = 0;
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void cancel(int signal) {
  cancelling_signal = signal;
  cancelled = true;
}

void cancel_on_signals() {
  struct sigaction action {};
  action.sa_handler = cancel;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

struct Arguments {
  std::string adapter_command;
  std::string corpus;
  Selection selection;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  double timeout_seconds = 0;
  std::uint64_t memory_bytes = 0;
  std::string json_file;
  std::string html_file;
  std::string junit_file;
  bool list = false;
};

void write_file(const std::string& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  file.close();
  if (!file) throw EnvironmentError(fmt::format("{}: cannot be written", path));
}

void print_list(const std::vector<Case>& cases) {
  for (const Case& item : cases) {
    fmt::print("{}\t{}\t{}\t{}\n", item.id, item.layout, name_of(item.verdict), fmt::join(item.features, ","));
  }
}

std::vector<std::string> adapter_argv(const Arguments& arguments, const fs::path& prefix) {
  if (!arguments.adapter_command.empty()) return split_command(arguments.adapter_command);
  return {prefix / "libexec/tzmark/tzmark-adapter-reference"};
}

// On a terminal only: a line that counts up while the suite runs.
class Progress {
 public:
  explicit Progress(std::size_t total) : total_(total), shown_(::isatty(STDERR_FILENO) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;
  ~Progress() {
    if (shown_) fmt::print(stderr, "\r\033[K");
  }
  void operator()(std::size_t done) const {
    if (shown_) fmt::print(stderr, "\r{}/{}", done, total_);
  }

 private:
  std::size_t total_;
  bool shown_;
};

int run(const Arguments& arguments, const fs::path& prefix) {
  const fs::path share = prefix / "share/tzmark";
  const Manifest manifest = load_manifest(arguments.corpus.empty() ? share / "corpus" : fs::path(arguments.corpus));
  const std::vector<Case> cases = select_cases(manifest, arguments.selection);
  if (arguments.list) {
    print_list(cases);
    return 0;
  }

  const Adapter adapter(adapter_argv(arguments, prefix), cancelled);
  for (const std::string& feature : stale_exclusions(manifest, adapter.profile())) {
    fmt::print(stderr, "tzmark-conform: the adapter lacks '{}', a feature that no case has\n", feature);
  }
  SuiteRun suite_run{.manifest = &manifest,
                     .adapter = &adapter,
                     .selection = arguments.selection,
                     .options = {},
                     .started = {},
                     .results = {}};
  suite_run.options.jobs = arguments.jobs;
  if (arguments.timeout_seconds > 0) {
    suite_run.options.elapsed_max =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(arguments.timeout_seconds));
  }
  if (arguments.memory_bytes > 0) suite_run.options.memory_max_bytes = arguments.memory_bytes;

  suite_run.started = std::chrono::system_clock::now();
  const auto began = std::chrono::steady_clock::now();
  {
    const Progress progress(cases.size());
    suite_run.results = run_suite(manifest, cases, adapter, suite_run.options, cancelled, std::cref(progress));
  }
  suite_run.elapsed = std::chrono::steady_clock::now() - began;
  if (cancelled) throw EnvironmentError("stopped");

  fmt::print("{}", text_report(suite_run));
  if (std::fflush(stdout) != 0) throw EnvironmentError("stdout cannot be written");
  const std::string json = json_report(suite_run);
  if (!arguments.json_file.empty()) write_file(arguments.json_file, json);
  if (!arguments.junit_file.empty()) write_file(arguments.junit_file, junit_report(suite_run));
  if (!arguments.html_file.empty()) make_page(share / "reports/render.py", json, arguments.html_file, cancelled);

  const Totals totals = totals_of(suite_run.results);
  if (totals.ran() == 0) {
    fmt::print(stderr, "tzmark-conform: no case ran\n");
    return 1;
  }
  return totals.failed == 0 ? 0 : 1;
}

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Runs the tzmark conformance suite on an implementation of the tensorizer file format.",
               "tzmark-conform");
  app.set_version_flag("--version", std::string("tzmark-conform ") + TZMARK_VERSION);
  app.add_option("--adapter", arguments.adapter_command,
                 "command of the implementation under test, as in PROTOCOL.md (default: the reference)")
      ->type_name("CMD");
  app.add_option("--corpus", arguments.corpus,
                 "folder with manifest.json (default: the one installed with this program)")
      ->type_name("DIR");
  app.add_option("--only", arguments.selection.ids, "only cases whose id matches this pattern; repeatable")
      ->type_name("GLOB")
      ->expected(1)
      ->take_all();
  app.add_option("--layout", arguments.selection.layouts, "only cases of this layout; repeatable")
      ->type_name("LAYOUT")
      ->expected(1)
      ->take_all();
  app.add_option("--jobs", arguments.jobs, "cases at a time (default: one a core)")
      ->type_name("N")
      ->check(CLI::Range(1u, 4096u));
  app.add_option("--timeout", arguments.timeout_seconds,
                 "limit a command, over what the adapter takes to start, in place of each case's own")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app.add_option("--memory", arguments.memory_bytes,
                 "memory a command may use over the idle adapter, in place of each case's own")
      ->type_name("BYTES[KiB|MiB|GiB]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_option("--json", arguments.json_file, "write the result as JSON")->type_name("FILE");
  app.add_option("--html", arguments.html_file, "write the result as one HTML page (needs python3 with Jinja2)")
      ->type_name("FILE");
  app.add_option("--junit", arguments.junit_file, "write the result as JUnit XML")->type_name("FILE");
  app.add_flag("--list", arguments.list, "print the cases (id, layout, verdict, features) and run nothing");
  app.footer(
      "Exit status: 0 all passed, 1 a case failed or none ran, 2 wrong usage, 3 the environment failed,\n"
      "4 the HTML page cannot be made here.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }

  cancel_on_signals();
  try {
    // The program finds what was installed with it by where it is itself.
    return run(arguments, fs::canonical("/proc/self/exe").parent_path().parent_path());
  } catch (const std::exception& error) {
    if (cancelled) return 128 + cancelling_signal;
    fmt::print(stderr, "tzmark-conform: {}\n", error.what());
    if (dynamic_cast<const UsageError*>(&error)) return 2;
    return dynamic_cast<const UnavailableError*>(&error) ? 4 : 3;
  }
}

}  // namespace
}  // namespace tzmark::conformance

int main(int argc, char** argv) { return tzmark::conformance::main(argc, argv); }
