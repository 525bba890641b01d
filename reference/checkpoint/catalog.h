// Listing and verifying checkpoints of an open directory. Errors: as in tzmark/checkpoint.h.
#pragma once

#include <vector>

#include "checkpoint/load.h"
#include "os/directory.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

// Does what list_checkpoints does.
std::vector<CheckpointInfo> list(const Directory& parent);
// Does what verify_checkpoint does.
CheckpointInfo verify(const StoredCheckpoint& stored);

}  // namespace tzmark::checkpoint
