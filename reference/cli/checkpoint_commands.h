// The subcommands of tzmark checkpoint, and what they share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "cli/simulation.h"
#include "tzmark/checkpoint.h"

namespace tzmark::cli {

struct SimulateOptions : SimulationOptions {
  std::string json_file;
  bool mpi = false;
};

// run: what the command does with its options.
void add_checkpoint_simulate(CLI::App& group, std::function<void(const SimulateOptions&)> run);
// Runs the loop in these processes, and shows it.
void simulate(const SimulateOptions& options, Ranks& ranks);

void add_checkpoint_list(CLI::App& group);
void add_checkpoint_verify(CLI::App& group);
void add_checkpoint_consolidate(CLI::App& group);
void add_checkpoint_reshard(CLI::App& group);

// The options of a command that writes checkpoints.
void add_write_options(CLI::App& command, CheckpointOptions& options);
// The options of a command that reads them.
void add_read_options(CLI::App& command, CheckpointReadOptions& options);

// Prints a line for people on stderr.
void warn(const std::string& text);
// Says on stderr which directories beside the checkpoints were passed over, and why.
void warn_of_unusable(const std::string& directory);

// The checkpoint that a directory is, or else the newest one in it. Throws TZE-ENV-001 where there is none.
std::string find_checkpoint(const std::string& directory);

}  // namespace tzmark::cli
