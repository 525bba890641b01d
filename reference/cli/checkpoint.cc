// tzmark checkpoint: the group of commands, and what they share.
#include <fmt/format.h>

#include <memory>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "cli/sibling.h"
#include "os/directory.h"

namespace tzmark::cli {

std::string find_checkpoint(const std::string& directory) {
  const Directory opened(directory);
  for (const char* name : {"commit.json", "training_state.json", "sharding_meta.json"}) {
    if (opened.has(name)) return directory;
  }
  if (const auto newest = find_newest_checkpoint(directory)) return newest->directory;
  throw Error(ErrorCode::kOpenFailed, fmt::format("{}: there is no committed checkpoint", directory));
}

void add_checkpoint(CLI::App& app, char** arguments) {
  CLI::App* group = app.add_subcommand("checkpoint", "Checkpoints of a training run: simulate, list, verify, reshard");
  group->require_subcommand(1);
  add_checkpoint_simulate(*group, [arguments](const SimulateOptions& options) {
    if (options.mpi) become_sibling("../libexec/tzmark/tzmark-checkpoint-mpi", arguments);
    Ranks alone;
    simulate(options, alone);
  });
  add_checkpoint_list(*group);
  add_checkpoint_verify(*group);
  add_checkpoint_consolidate(*group);
  add_checkpoint_reshard(*group);
}

}  // namespace tzmark::cli
