// tzmark checkpoint consolidate and reshard: a sharded checkpoint for one process, or for another number of ranks.
#include <memory>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"

namespace tzmark::cli {
namespace {

struct ReshardOptions {
  std::string directory, output;
  std::uint32_t world_size = 0;
  CheckpointReadOptions reading;
  CheckpointOptions writing;

  void add_to(CLI::App& command) {
    command.add_option("DIR", directory, "A sharded checkpoint, or the directory whose newest one is meant")
        ->required();
    command.add_option("OUT", output, "The checkpoint to write, which must not exist")->required();
    add_read_options(command, reading);
    add_write_options(command, writing);
    writing.existing = CheckpointOptions::Existing::kRefuse;
  }
};

}  // namespace

void add_checkpoint_consolidate(CLI::App& group) {
  auto options = std::make_shared<ReshardOptions>();
  CLI::App* command = group.add_subcommand("consolidate", "Put the shards of all ranks together");
  options->add_to(*command);
  command->callback([options] {
    consolidate_checkpoint(find_checkpoint(options->directory), options->output, options->reading, options->writing);
  });
}

void add_checkpoint_reshard(CLI::App& group) {
  auto options = std::make_shared<ReshardOptions>();
  CLI::App* command = group.add_subcommand("reshard", "Deal a sharded checkpoint out to another number of ranks");
  options->add_to(*command);
  command->add_option("--world-size", options->world_size, "How many ranks will load it")
      ->required()
      ->check(CLI::Range(1U, kWorldSizeMax));
  command->callback([options] {
    reshard_checkpoint(find_checkpoint(options->directory), options->output, options->world_size, options->reading,
                       options->writing);
  });
}

}  // namespace tzmark::cli
