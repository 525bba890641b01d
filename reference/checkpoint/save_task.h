// A save as the background thread gets it: what to write, where, and as which rank.
#pragma once

#include <optional>
#include <string>

#include "checkpoint/claim.h"
#include "checkpoint/line.h"
#include "checkpoint/retention.h"
#include "checkpoint/save.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/stopwatch.h"
#include "tzmark/checkpoint.h"

namespace tzmark {

// What the saves of one checkpointer share.
struct SaveHistory {
  checkpoint::Claims& claims;
  checkpoint::Line& line;
  checkpoint::RetentionPolicy& retention;
};

struct SaveTask {
  std::string directory;
  TensorViews model_views, optimizer_views;  // until they are copied
  TrainingState state;
  std::optional<Sharding> sharding = std::nullopt;  // if this is one of several ranks
  std::uint32_t rank = 0, world_size = 0;
  SaveGroup group = {};
  checkpoint::TensorSet model = {}, optimizer = {};  // in the snapshot

  // Throws kUsage for a save that must fail whatever its tensors are.
  void check() const;
  // Writes the files, commits, and applies retention.
  WriteReport write(const CheckpointOptions& options, const SaveHistory& history) const;

 private:
  using Parent = std::shared_ptr<const Directory>;

  void hold_claim(const SaveHistory& history, WriteReport& report) const;
  // Return the directory that contains the checkpoint.
  Parent write_alone(const CheckpointOptions& options, const SaveHistory& history, WriteReport& report,
                     checkpoint::Stopwatch& watch) const;
  Parent write_shard(const CheckpointOptions& options, const SaveHistory& history, WriteReport& report,
                     checkpoint::Stopwatch& watch) const;
  template <typename Action>
  void with_content(Action&& action) const;
};

}  // namespace tzmark
