// Writing a checkpoint under a temporary name, and giving it its own when all of it is durable.
//
// The order is the promise; reference/CHECKPOINTS.md states it. A PendingCheckpoint is for one thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/names.h"
#include "checkpoint/records.h"
#include "tzmark/checkpoint.h"
#include "tzmark/table.h"
#include "tzmark/writer.h"

namespace tzmark::checkpoint {

// What goes into the files of one rank, or of a checkpoint that is not sharded.
struct Content {
  const TensorTable* model = nullptr;
  const TensorSource* model_source = nullptr;
  const TensorTable* optimizer = nullptr;  // none, or empty: there is no file
  const TensorSource* optimizer_source = nullptr;
  const TrainingState* state = nullptr;
};

// Who writes the checkpoint: one alone, or the ranks together, of which the first one commits.
enum class Writer : std::uint8_t { kAlone, kFirstRank, kOtherRank };

// Whether the file `latest` beside the checkpoint is to name it.
enum class Latest : std::uint8_t { kMoves, kStays };

class PendingCheckpoint {
 public:
  // Makes the temporary directory, or comes to that of the other ranks. Throws if the checkpoint is not to be written:
  // TZE-ENV-001 for a directory that must not be replaced, or is not a checkpoint. The options outlive it.
  PendingCheckpoint(FileSystem& files, const std::string& directory, std::string save_id,
                    const CheckpointOptions& options, Writer writer);
  // Removes what was not committed, unless other ranks may still be at work there.
  ~PendingCheckpoint();
  PendingCheckpoint(const PendingCheckpoint&) = delete;
  PendingCheckpoint& operator=(const PendingCheckpoint&) = delete;

  // Each returns what it has written, all of it durable but for the names in the temporary directory itself.
  std::vector<FileRecord> write(const Content& content);
  void write_rank(std::uint32_t rank, std::uint32_t world_size, const Content& content, const Sharding& sharding);

  // All ranks' files, as their manifests list them, and sharding_meta.json, which is written here. Throws CKP-006 for a
  // rank that is missing, or of another save.
  std::vector<FileRecord> gather(std::uint32_t world_size, std::uint64_t step);

  // When this returns, the checkpoint is durable under its name, `latest` names it if it is to, and one that it has
  // replaced is gone. world_size: 0 if it is not sharded.
  void commit(std::uint64_t step, std::uint32_t world_size, std::vector<FileRecord> written, Latest latest);

  // For a rank of a save that has failed on any of them before the commit: takes back what this one has written, and
  // the temporary directory if that is the last in it. Throws nothing: what stays, clean_stale_checkpoints removes.
  void abandon() noexcept;

  // For a first rank that does not know what the others do: leaves everything to clean_stale_checkpoints.
  void leave() { stays_ = true; }

  std::uint64_t written_bytes() const { return written_bytes_; }
  // What commit has left behind, as a sentence; empty if nothing.
  const std::string& warning() const { return warning_; }
  const Place& place() const { return place_; }

 private:
  std::string within(const std::string& name) const { return temporary_ + "/" + name; }
  FileRecord write_tensors_file(const std::string& prefix, std::string_view stem, const TensorTable& tensors,
                                const TensorSource& source);
  FileRecord write_record(const std::string& name, const std::string& text);
  std::vector<FileRecord> write_content(const std::string& prefix, const Content& content);
  void lock_temporary();
  void require_good_copy();
  void require_replaceable(OpenDirectory& existing) const;
  void remove_replaced();
  void remove_temporary();
  bool take_name();
  bool holds_own_commit();

  FileSystem& files_;
  const CheckpointOptions& options_;
  const Place place_;
  const std::string save_id_;
  const std::string temporary_;
  const Writer writer_;
  std::unique_ptr<OpenDirectory> lock_;      // of the new directory: no other process takes it for a dead save's
  std::unique_ptr<OpenDirectory> old_lock_;  // the same for the checkpoint that this one replaces, until it is gone
  std::string own_rank_;                     // the directory that write_rank has made
  bool stays_ = false;                       // whatever lies under the temporary name
  bool renames_ = false;                     // so that it may not be ours
  std::string warning_;
  std::uint64_t written_bytes_ = 0;
};

}  // namespace tzmark::checkpoint
