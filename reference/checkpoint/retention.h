// Deleting old checkpoints, when a newer one has been found to be whole on disk.
#pragma once

#include "checkpoint/names.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

// newest: the checkpoint that has just been committed; it is verified before anything is deleted, and stays. Throws
// what verifying throws, and then has deleted nothing.
void apply_retention(const std::shared_ptr<FileSystem>& files, const Place& newest, const Retention& retention,
                     unsigned threads);

}  // namespace tzmark::checkpoint
