// tzmark-conform: runs the conformance suite (conform_command.h), hands out its cases (corpus_command.h), or shrinks a
// file on which an implementation fails (minimize_command.h).
//
// Exit status: 0 all is well; 1 a case failed in a way that is not known, none ran, a file of the corpus is wrong, or
// the implementation does not fail on the file that should be shrunk; 2 wrong usage; 3 the environment failed (corpus
// missing or changed, adapter not startable, report not writable); 4 this machine cannot make the HTML page, or an
// input mode that was asked for.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <filesystem>
#include <functional>
#include <string_view>
#include <utility>

#include "commands/arguments.h"
#include "commands/conform_command.h"
#include "commands/corpus_command.h"
#include "commands/minimize_command.h"
#include "commands/page.h"
#include "runner/console.h"
#include "runner/errors.h"

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

int run(const std::function<int(const fs::path& prefix)>& command) {
  cancel_on_signals();
  try {
    open_standard_streams();
    // The program finds what was installed with it by where it is itself.
    return command(fs::canonical("/proc/self/exe").parent_path().parent_path());
  } catch (const std::exception& error) {
    if (cancelled) return 128 + cancelling_signal;
    tell(error.what());
    if (dynamic_cast<const UsageError*>(&error)) return 2;
    return dynamic_cast<const UnavailableError*>(&error) ? 4 : 3;
  }
}

int corpus_main(int argc, char** argv) {
  CorpusArguments arguments;
  CLI::App app("Hands out the cases of the tzmark conformance suite.", "tzmark corpus");
  add_corpus_commands(app, arguments);
  app.footer("Exit status: 0 all is well, 1 a file of the corpus is wrong, 2 wrong usage, 3 the environment failed.");
  return run([&](const fs::path& prefix) { return parse(app, argc, argv) ? run_corpus(arguments, prefix) : 0; });
}

int minimize_main(int argc, char** argv) {
  MinimizeArguments arguments;
  CLI::App app("Makes the smallest file with which an implementation fails as it does with a given one.",
               "tzmark minimize");
  add_minimize_options(app, arguments);
  app.footer(
      "Exit status: 0 a file is written, 1 the implementation does not fail on FILE, 2 wrong usage,\n"
      "3 the environment failed.");
  return run(
      [&](const fs::path& prefix) { return parse(app, argc, argv) ? run_minimize(arguments, prefix, cancelled) : 0; });
}

int conform_main(int argc, char** argv) {
  ConformArguments arguments;
  CLI::App app("Runs the tzmark conformance suite on an implementation of the tensorizer file format.",
               "tzmark-conform");
  app.set_version_flag("--version", std::string("tzmark-conform ") + TZMARK_VERSION);
  add_conform_options(app, arguments);
  app.footer(
      "tzmark-conform corpus lists, checks and exports the cases; tzmark-conform minimize shrinks a failing file.\n"
      "Exit status: 0 all passed, 1 a case failed or none ran, 2 wrong usage, 3 the environment failed,\n"
      "4 the HTML page, or a shape of files, cannot be made here.");
  return run(
      [&](const fs::path& prefix) { return parse(app, argc, argv) ? run_conform(arguments, prefix, cancelled) : 0; });
}

}  // namespace

int main(int argc, char** argv) {
  // tzmark runs this program under the name of the command that was asked for.
  for (const auto& [name, command] :
       {std::pair(std::string_view("corpus"), &corpus_main), std::pair(std::string_view("minimize"), &minimize_main)}) {
    if (argc > 0 && argv[0] == name) return command(argc, argv);
    if (argc > 1 && argv[1] == name) return command(argc - 1, argv + 1);
  }
  return conform_main(argc, argv);
}

}  // namespace tzmark::conformance

int main(int argc, char** argv) { return tzmark::conformance::main(argc, argv); }
