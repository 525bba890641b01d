// tzmark checkpoint consolidate and reshard: convert a sharded checkpoint for one process, or for other ranks.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "program/standard_streams.h"

namespace tzmark::cli {
namespace {

struct ReshardOptions {
  std::string directory, output;
  std::uint32_t world_size = 0;
  CheckpointChoice reading;
  CheckpointOptions writing;

  void add_to(CLI::App& command) {
    command.add_option("DIR", directory, "Sharded checkpoint, or directory, of which the newest is taken")->required();
    command.add_option("OUT", output, "Checkpoint to write; must not exist")->required();
    add_read_options(command, reading);
    add_write_options(command, writing);
    writing.existing = CheckpointOptions::Existing::kRefuse;
  }
};

void tell_warnings(const WriteReport& report) {
  for (const std::string& warning : report.warnings) tell(fmt::format("tzmark: warning: {}", warning));
}

}  // namespace

void add_checkpoint_consolidate(CLI::App& group) {
  auto options = std::make_shared<ReshardOptions>();
  CLI::App* command = group.add_subcommand("consolidate", "Merge the shards of all ranks into one checkpoint");
  options->add_to(*command);
  command->callback([options] {
    tell_warnings(consolidate_checkpoint(find_checkpoint(options->directory, options->reading), options->output,
                                         options->reading.reading, options->writing));
  });
}

void add_checkpoint_reshard(CLI::App& group) {
  auto options = std::make_shared<ReshardOptions>();
  CLI::App* command = group.add_subcommand("reshard", "Redistribute a sharded checkpoint over another number of ranks");
  options->add_to(*command);
  command->add_option("--world-size", options->world_size, "Number of ranks that will load it")
      ->required()
      ->check(CLI::Range(1U, kWorldSizeMax));
  command->callback([options] {
    tell_warnings(reshard_checkpoint(find_checkpoint(options->directory, options->reading), options->output,
                                     options->world_size, options->reading.reading, options->writing));
  });
}

}  // namespace tzmark::cli
