// The subcommands of tzmark checkpoint, and what they share.
#pragma once

#include <string>

#include "tzmark/checkpoint.h"

namespace CLI {
class App;
}

namespace tzmark::cli {

void add_checkpoint_list(CLI::App& group);
void add_checkpoint_verify(CLI::App& group);
void add_checkpoint_consolidate(CLI::App& group);
void add_checkpoint_reshard(CLI::App& group);
void add_checkpoint_upload(CLI::App& group);

// Adds the options of a command that writes checkpoints.
void add_write_options(CLI::App& command, CheckpointOptions& options);

struct CheckpointChoice {
  CheckpointReadOptions reading;
  bool intact = false;  // take the newest checkpoint that is intact
};
// Adds the options of a command that reads them.
void add_read_options(CLI::App& command, CheckpointChoice& options);

// Returns the directory if it is a checkpoint, else the newest one in it, and reports which were passed over. Throws
// TZE-ENV-001 if there is none, and CKP-002 if none is intact where that is asked for.
std::string find_checkpoint(const std::string& directory, const CheckpointChoice& options);

}  // namespace tzmark::cli
