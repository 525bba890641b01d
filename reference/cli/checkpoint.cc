// tzmark checkpoint: the command group.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "os/directory.h"

namespace tzmark::cli {

std::string find_checkpoint(const std::string& directory) {
  const Directory opened(directory);
  for (const char* name : {"commit.json", "training_state.json", "sharding_meta.json"}) {
    if (opened.has(name)) return directory;
  }
  if (const auto newest = find_newest_checkpoint(directory)) return newest->directory;
  throw Error(ErrorCode::kOpenFailed, fmt::format("{}: no committed checkpoint found", directory));
}

void add_checkpoint(CLI::App& app) {
  CLI::App* group = app.add_subcommand(
      "checkpoint", "List, verify, consolidate or reshard checkpoints of a training run, or simulate one");
  group->require_subcommand(1);
  add_checkpoint_list(*group);
  add_checkpoint_verify(*group);
  add_checkpoint_consolidate(*group);
  add_checkpoint_reshard(*group);
}

}  // namespace tzmark::cli
