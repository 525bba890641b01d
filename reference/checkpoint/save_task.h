// One save as the background thread is given it: what to write, where, and as which rank of whom.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/retention.h"
#include "checkpoint/save.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/stopwatch.h"
#include "tzmark/checkpoint.h"

namespace tzmark {

struct SaveTask {
  std::string directory;
  TensorViews model_views, optimizer_views;  // until they are copied
  TrainingState state;
  std::optional<Sharding> sharding = std::nullopt;  // of one rank of several
  std::uint32_t rank = 0, world_size = 0;
  SaveGroup group = {};
  checkpoint::TensorSet model = {}, optimizer = {};  // which lie in the snapshot when this is written

  // Throws kUsage for what cannot be written, whatever the tensors are.
  void check() const;
  // All of it: files, commit, retention. REQUIRES: the options name a file system.
  WriteReport write(const CheckpointOptions& options, checkpoint::RetentionPolicy& retention) const;

 private:
  // For one writer alone, and for one rank of several.
  void write_alone(const CheckpointOptions& options, WriteReport& report, checkpoint::Stopwatch& watch) const;
  void write_shard(const CheckpointOptions& options, WriteReport& report, checkpoint::Stopwatch& watch) const;
  template <typename Action>
  void with_content(Action&& action) const;
};

}  // namespace tzmark
