// Listing and verifying checkpoints of an open directory. Errors: as in tzmark/checkpoint.h.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/records.h"
#include "os/directory.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

// Does what list_checkpoints does.
std::vector<CheckpointInfo> list(const Directory& parent);
// Describes a checkpoint by its commit.json.
CheckpointInfo info_of(const std::string& directory, const CommitRecord& commit);
// Does what verify_checkpoint does.
CheckpointInfo verify(const StoredCheckpoint& stored);

}  // namespace tzmark::checkpoint
