// Deleting old checkpoints after newer ones have been verified. For one thread at a time.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "os/directory.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

class RetentionPolicy {
 public:
  RetentionPolicy(const Retention& retention, unsigned threads);

  // newest, save_id: of the checkpoint just committed. It is verified before anything is deleted, and kept; if that
  // throws, nothing is deleted. Returns warnings, also about what cannot be listed or deleted.
  std::vector<std::string> apply(const Directory& parent, const std::string& newest, const std::string& save_id);

 private:
  bool is_whole(const Directory& parent, const CheckpointInfo& info);
  // Returns whether a checkpoint is kept whatever its age.
  bool stays(const CheckpointInfo& info) const;
  bool is_kept_by_caller(const Directory& parent, const CheckpointInfo& info);
  void tell_foreign(const CheckpointInfo& info);
  void remove_checkpoint(const Directory& parent, const CheckpointInfo& info);

  const Retention retention_;
  CheckpointReadOptions reading_;
  std::set<std::string> verified_;  // save ids
  std::set<std::string> told_;      // runs whose checkpoints are kept
  std::vector<std::string> warnings_;
};

}  // namespace tzmark::checkpoint
