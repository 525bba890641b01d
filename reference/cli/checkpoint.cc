// tzmark checkpoint: the command group.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "os/directory.h"
#include "program/standard_streams.h"

namespace tzmark::cli {

std::string find_checkpoint(const std::string& directory, const CheckpointChoice& options) {
  const Directory opened(directory);
  for (const char* name : {"commit.json", "training_state.json", "sharding_meta.json"}) {
    if (!opened.has(name)) continue;
    if (options.intact)
      throw Error(ErrorCode::kUsage, fmt::format("{}: --intact needs a directory of checkpoints", directory));
    return directory;
  }
  if (options.intact) {
    const IntactCheckpoint intact = find_intact_checkpoint(directory, options.reading);
    for (const std::string& sentence : intact.passed_over) tell(sentence);
    if (intact.found) return intact.found->directory;
  } else {
    const CheckpointCandidates candidates = list_checkpoint_candidates(directory);
    for (const std::string& sentence : candidates.passed_over) tell(sentence);
    if (!candidates.damage.empty()) throw Error(candidates.damage_code, candidates.damage);
    if (!candidates.checkpoints.empty()) return candidates.checkpoints.front().directory;
  }
  throw Error(ErrorCode::kOpenFailed, fmt::format("{}: no committed checkpoint found", directory));
}

void add_checkpoint(CLI::App& app) {
  CLI::App* group = app.add_subcommand(
      "checkpoint", "List, verify, consolidate, reshard or upload checkpoints of a training run, or simulate one");
  group->require_subcommand(1);
  add_checkpoint_list(*group);
  add_checkpoint_verify(*group);
  add_checkpoint_consolidate(*group);
  add_checkpoint_reshard(*group);
  add_checkpoint_upload(*group);
}

}  // namespace tzmark::cli
