// tzmark-conform: the commands of the suite. `tzmark-conform mutate` and `tzmark mutate` are the same, and so on;
// without the name of a command it is conform.
//
// Exit status: 0 success; 1 a case failed that is not listed as known, no case ran, a file of the corpus is wrong, two
// implementations differ, or an implementation does not fail on the file to minimize; 2 invalid usage; 3 the
// environment failed (corpus missing or changed, adapter not startable, report not writable); 4 this machine cannot
// make the HTML page, or does not support an input mode.
#include <fmt/format.h>
#include <signal.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "commands/against_command.h"
#include "commands/annotate_command.h"
#include "commands/arguments.h"
#include "commands/conform_command.h"
#include "commands/corpus_command.h"
#include "commands/minimize_command.h"
#include "commands/mutate_command.h"
#include "commands/page.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/json.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

// Set by SIGINT, SIGTERM and SIGHUP: children are in process groups of their own, so the runner has to end them.
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
  // nohup ignores it.
  struct sigaction before {};
  if (::sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN) ::sigaction(SIGHUP, &action, nullptr);
}

// A write beyond the limit of file sizes then fails with an error. Not SIG_IGN, which adapters would inherit.
void outlive_file_size_limit() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGXFSZ, &action, nullptr);
}

// The library's own text for a temporary directory that does not exist names a function of C++.
std::string message_of(const std::exception& error) {
  if (dynamic_cast<const fs::filesystem_error*>(&error) != nullptr) {
    std::error_code problem;
    static_cast<void>(fs::temp_directory_path(problem));
    const char* const name = std::getenv("TMPDIR");
    if (problem && name != nullptr) {
      return fmt::format(
          "no temporary file in {}, which TMPDIR names: {}; set TMPDIR to a directory that can be written", name,
          problem.message());
    }
  }
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) return "out of memory";
  return problem_of(error);
}

int run_guarded(const std::function<int(const fs::path& prefix)>& command) {
  cancel_on_signals();
  outlive_file_size_limit();
  try {
    open_standard_streams();
    // The program is in libexec/tzmark, and finds what was installed with it relative to its own path.
    return command(fs::canonical("/proc/self/exe").parent_path().parent_path().parent_path());
  } catch (const std::exception& error) {
    if (cancelled) return 128 + cancelling_signal;
    tell(message_of(error));
    if (dynamic_cast<const UsageError*>(&error)) return 2;
    return dynamic_cast<const UnavailableError*>(&error) ? 4 : 3;
  }
}

template <typename Arguments>
struct CommandLine {
  const char* name;
  const char* description;
  const char* footer;
  void (*add_options)(CLI::App& app, Arguments& arguments);
  int (*run)(const Arguments& arguments, const fs::path& prefix, const std::atomic<bool>& cancelled);

  int operator()(int argc, const char* const* argv) const {
    Arguments arguments;
    CLI::App app(description, name);
    app.set_version_flag("--version", std::string("tzmark-conform ") + TZMARK_VERSION);
    add_options(app, arguments);
    app.footer(footer);
    return run_guarded(
        [&](const fs::path& prefix) { return parse(app, argc, argv) ? run(arguments, prefix, cancelled) : 0; });
  }
};

const CommandLine<ConformArguments> kConform = {
    "tzmark-conform",
    "Runs the tzmark conformance suite on a reader or writer of tensorizer's format or of safetensors.",
    "Other commands: tzmark-conform corpus | mutate | against | minimize, each with its own --help.\n"
    "Exit status: 0 all passed, 1 a case failed, none ran or too many were skipped, 2 invalid usage,\n"
    "3 the environment failed, 4 the HTML page cannot be made here, or an input mode is not supported here.",
    &add_conform_options, &run_conform};
const CommandLine<CorpusArguments> kCorpus = {
    "tzmark corpus", "Lists, checks or exports the cases of the tzmark conformance suite.",
    "Exit status: 0 success, 1 a file of the corpus is wrong, 2 invalid usage, 3 the environment failed.",
    &add_corpus_commands, &run_corpus};
const CommandLine<MutateArguments> kMutate = {
    "tzmark mutate", "Scores how strictly an implementation reads, on mutated files of the corpus.",
    "Exit status: 0 no failure, 1 a failure, or no file was judged, 2 invalid usage, 3 the environment failed,\n"
    "4 an input mode is not supported here.",
    &add_mutate_options, &run_mutate};
const CommandLine<AgainstArguments> kAgainst = {
    "tzmark against", "Compares two implementations on the same files, and reports where they differ.",
    "Exit status: 0 no difference, 1 a difference, or no file was compared, 2 invalid usage,\n"
    "3 the environment failed, 4 an input mode is not supported here.",
    &add_against_options, &run_against};
const CommandLine<MinimizeArguments> kMinimize = {
    "tzmark minimize", "Shrinks a file while an implementation fails on it in the same way.",
    "Exit status: 0 a file was written, 1 the implementation does not fail on FILE, 2 invalid usage,\n"
    "3 the environment failed.",
    &add_minimize_options, &run_minimize};

// Not for people: tzmark inspect --bytes runs it.
const CommandLine<AnnotateArguments> kAnnotate = {
    "tzmark-conform annotate", "Shows every byte of a file with the field that it belongs to.",
    "Exit status: 0 success, 1 the file breaks a rule.", &add_annotate_options, &run_annotate};

using Program = std::function<int(int argc, const char* const* argv)>;

}  // namespace

int main(int argc, char** argv) {
  const std::map<std::string_view, Program> commands = {{"conform", kConform},   {"corpus", kCorpus},
                                                        {"mutate", kMutate},     {"against", kAgainst},
                                                        {"minimize", kMinimize}, {"annotate", kAnnotate}};
  // tzmark runs this program under the name of the command.
  const bool named = argc > 0 && commands.contains(argv[0]);
  const bool is_conform = named && std::string_view(argv[0]) == "conform";
  const int shift = (!named || is_conform) && argc > 1 && commands.contains(argv[1]) ? 1 : 0;
  const std::string_view name = named || shift > 0 ? argv[shift] : "conform";
  return commands.at(name)(argc - shift, argv + shift);
}

}  // namespace tzmark::conformance

int main(int argc, char** argv) { return tzmark::conformance::main(argc, argv); }
