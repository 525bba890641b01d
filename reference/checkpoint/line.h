// The order of checkpoints, and the line of those from which a run continues.
//
// Every commit has a sequence number, higher than all in its directory, and the save id of its parent. The
// saves of one checkpointer, from its start or from continue_from, are a run: a random id. The ancestors of a
// checkpoint are those of its run with lower numbers, and those of earlier runs up to the numbers that its commit.json
// lists. Deleting any of them leaves the others related. A Line is for one thread at a time.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/names.h"
#include "checkpoint/records.h"
#include "os/directory.h"
#include "tzmark/checkpoint.h"

namespace tzmark::checkpoint {

// Returns whether a checkpoint is the tip, or one from which the tip continues.
bool is_on_line(const CheckpointOrigin& tip, const CheckpointOrigin& other);

class Line {
 public:
  // Does what AsyncCheckpointer::continue_from does.
  void continue_from(std::string save_id);

  // Returns what a checkpoint that is committed next, under this name, has to record. Errors: those of list.
  CheckpointOrigin next(const Directory& parent, const std::string& name);
  // Returns the save id of the checkpoint that was committed last, or from which the run continues.
  const std::string& parent_id() const { return parent_id_; }
  // Returns the name of the checkpoint that was committed last, by any process; empty without one.
  std::string newest(const Directory& parent);
  // Makes it the parent of the one after it.
  void committed(const CommitRecord& record) { parent_id_ = record.save_id; }
  // Returns sentences about the calls since the last one of next, once.
  std::vector<std::string> take_warnings() { return std::exchange(warnings_, {}); }

 private:
  void tell_unreadable(const std::vector<CheckpointInfo>& found);
  void find_start(const std::vector<CheckpointInfo>& found);

  std::string parent_id_;
  std::string start_id_;  // of the checkpoint from which the run continues, until it is found
  std::string run_ = new_save_id();
  std::vector<RunPart> line_;
  std::uint64_t sequence_ = 0;  // the highest that was seen
  std::vector<std::string> warnings_;
  std::set<std::string> told_;  // directories that cannot be read
};

}  // namespace tzmark::checkpoint
