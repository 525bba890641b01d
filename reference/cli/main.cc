// tzmark: one command with subcommands. As in git, separate programs run the larger ones.
//
// Exit status: 0 success, 1 the file fails, 2 wrong usage, 3 the environment failed, 4 not available on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <csignal>
#include <string_view>

#include "cli/commands.h"
#include "cli/run_app.h"
#include "cli/sibling.h"
#include "tzmark/digest.h"
#include "tzmark/io.h"
#include "tzmark/secretbox.h"
#include "tzmark/version.h"

namespace {

struct Sibling {
  std::string_view program;  // in libexec/tzmark
  std::string_view group;    // of commands; empty for a command of tzmark itself
  std::string_view command;
  std::string_view summary;
};

constexpr std::string_view kConform = "tzmark-conform", kBench = "tzmark-bench";
constexpr std::string_view kSimulate = "tzmark-checkpoint-simulate";

// The suite is a separate program that shares no code with the codec that it judges.
constexpr std::array kSiblings = {
    Sibling{kConform, "", "conform", "Run the conformance suite on an implementation"},
    Sibling{kConform, "", "corpus", "List, check or export the cases of the suite"},
    Sibling{kConform, "", "mutate", "Score how strictly an implementation reads, on mutated files"},
    Sibling{kConform, "", "against", "Compare two implementations on the same files"},
    Sibling{kConform, "", "minimize", "Shrink a file on which an implementation fails"},
    Sibling{kBench, "", "bench", "Measure I/O paths, the codec on top of them, and other programs"},
    Sibling{kBench, "", "tune", "Find the settings that suit a storage, and what limits them"},
    Sibling{kBench, "", "compare", "Compare two results of bench; exit 1 on a regression"},
    Sibling{kBench, "", "history", "Find change points in a directory of results of bench"},
    Sibling{kBench, "", "report", "Render results of bench and comparisons as a page with figures"},
    Sibling{kSimulate, "checkpoint", "simulate", "Run a training loop that saves checkpoints"},
};

int run(int argc, char** argv) {
  CLI::App app("Read, verify and write .tensors files of every data version", "tzmark");
  app.set_version_flag("--version", [] {
    return fmt::format("{}\nencryption kernel: {}\nSHA-256 kernel: {}, lanes: {}", tzmark::version_text(),
                       tzmark::secretbox_kernel(), tzmark::sha256_kernel(), tzmark::sha256_lanes());
  });
  app.require_subcommand(1);
  tzmark::cli::add_inspect(app);
  tzmark::cli::add_dump(app);
  tzmark::cli::add_verify(app);
  tzmark::cli::add_convert(app);
  tzmark::cli::add_extract(app);
  tzmark::cli::add_append(app);
  tzmark::cli::add_edit(app);
  tzmark::cli::add_checkpoint(app);
  // Listed for --help only: main runs them before any option is parsed.
  for (const Sibling& sibling : kSiblings) {
    CLI::App* const group = sibling.group.empty() ? &app : app.get_subcommand(std::string(sibling.group));
    group->add_subcommand(std::string(sibling.command), std::string(sibling.summary));
  }
  return tzmark::cli::run_app(app, argc, argv);
}

}  // namespace

int main(int argc, char** argv) {
  tzmark::remove_temporary_files_at_signals();
  tzmark::catch_bus_errors();
  for (const Sibling& sibling : kSiblings) {
    const int at = sibling.group.empty() ? 1 : 2;
    if (argc <= at || argv[at] != sibling.command || (at == 2 && argv[1] != sibling.group)) continue;
    return tzmark::cli::run_guarded(
        [&]() -> int { tzmark::cli::become_sibling(std::string(sibling.program), argv + at); });
  }
  return run(argc, argv);
}
