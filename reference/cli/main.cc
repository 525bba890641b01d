// tzmark: one command with subcommands. What is not about a single file is done by sibling programs, as git does.
//
// Exit status: 0 fine, 1 the file fails, 2 wrong usage, 3 the environment failed, 4 not available on this machine.
#include <array>
#include <csignal>
#include <string_view>

#include "cli/commands.h"
#include "cli/run_app.h"
#include "cli/sibling.h"
#include "tzmark/io.h"
#include "tzmark/version.h"

namespace {

struct Sibling {
  const char* program;
  const char* command;
  const char* summary;
};

// The suite is a program of its own that shares no code with the codec: the judge and the judged.
constexpr std::array kSiblings = {
    Sibling{"tzmark-conform", "conform", "Run the conformance suite on an implementation"},
    Sibling{"tzmark-conform", "corpus", "List, check or export the cases of the suite"},
    Sibling{"tzmark-conform", "mutate", "Score how strictly an implementation reads, on mutated files"},
    Sibling{"tzmark-conform", "against", "Compare two implementations on the same files"},
    Sibling{"tzmark-conform", "minimize", "Shrink a file on which an implementation fails"},
    Sibling{"tzmark-bench", "bench", "Measure I/O paths, the codec on top of them, and others beside it"},
    Sibling{"tzmark-bench", "compare", "Hold one result of bench against another; exit 1 on a regression"},
};

int run(int argc, char** argv) {
  CLI::App app("Reads, checks and writes .tensors files of every data version.", "tzmark");
  app.set_version_flag("--version", tzmark::version_text());
  app.require_subcommand(1);
  tzmark::cli::add_inspect(app);
  tzmark::cli::add_dump(app);
  tzmark::cli::add_verify(app);
  tzmark::cli::add_convert(app);
  tzmark::cli::add_extract(app);
  tzmark::cli::add_append(app);
  tzmark::cli::add_edit(app);
  tzmark::cli::add_checkpoint(app, argv);
  // Listed for --help only: they have been run before any option is looked at.
  for (const Sibling& sibling : kSiblings) app.add_subcommand(sibling.command, sibling.summary);
  return tzmark::cli::run_app(app, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  tzmark::remove_temporary_files_at_signals();
  if (argc > 1) {
    for (const Sibling& sibling : kSiblings) {
      if (argv[1] != std::string_view(sibling.command)) continue;
      return tzmark::cli::run_guarded([&]() -> int { tzmark::cli::become_sibling(sibling.program, argv + 1); });
    }
  }
  return run(argc, argv);
}
