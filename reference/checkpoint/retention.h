// Deleting old checkpoints, when newer ones have been found to be whole on disk.
//
// For one thread at a time.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "checkpoint/names.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

class RetentionPolicy {
 public:
  RetentionPolicy(const Retention& retention, std::shared_ptr<FileSystem> files, unsigned threads);

  // newest: the checkpoint that has just been committed. It is verified before anything is deleted, and stays. Throws
  // what verifying it throws, and then has deleted nothing. Returns warnings.
  std::vector<std::string> apply(const Place& newest);

 private:
  bool is_whole(const CheckpointInfo& info);
  // However old it is.
  bool stays(const CheckpointInfo& info, const std::string& newest) const;
  std::vector<CheckpointInfo> doomed(const std::string& newest, std::vector<CheckpointInfo> committed);
  void remove_checkpoint(const std::string& directory);

  const Retention retention_;
  const std::shared_ptr<FileSystem> files_;
  CheckpointReadOptions reading_;
  std::set<std::string> verified_;  // save ids
  std::vector<std::string> warnings_;
};

}  // namespace tzmark::checkpoint
