// Writing a checkpoint under a temporary name and renaming it when it is durable.
//
// reference/CHECKPOINTS.md specifies the order of the steps. A PendingCheckpoint is for one thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/line.h"
#include "checkpoint/records.h"
#include "os/directory.h"
#include "tzmark/checkpoint.h"
#include "tzmark/table.h"
#include "tzmark/writer.h"

namespace tzmark::checkpoint {

// The content of the files of one rank, or of a checkpoint that is not sharded.
struct Content {
  const TensorTable* model = nullptr;
  const TensorSource* model_source = nullptr;
  const TensorTable* optimizer = nullptr;  // null or empty: no file is written
  const TensorSource* optimizer_source = nullptr;
  const TrainingState* state = nullptr;
};

// The writer of a checkpoint: a single one, or one of several ranks, of which the first commits.
enum class Writer : std::uint8_t { kAlone, kFirstRank, kOtherRank };

// Whether the file `latest` in the parent will name the checkpoint.
enum class Latest : std::uint8_t { kMoves, kStays };

class PendingCheckpoint {
 public:
  // Makes the temporary directory, or opens that of the other ranks. Throws TZE-ENV-001 if the directory exists and
  // must not be replaced, or is not a checkpoint. REQUIRES: the options outlive this object.
  PendingCheckpoint(const std::string& directory, std::string save_id, const CheckpointOptions& options, Writer writer);
  // Removes what was not committed, unless other ranks may still use it.
  ~PendingCheckpoint();
  PendingCheckpoint(const PendingCheckpoint&) = delete;
  PendingCheckpoint& operator=(const PendingCheckpoint&) = delete;

  // Writes files and syncs everything except the names in the temporary directory itself.
  std::vector<FileRecord> write(const Content& content);
  void write_rank(std::uint32_t rank, std::uint32_t world_size, const Content& content, const Sharding& sharding);

  // Writes sharding_meta.json and returns all ranks' files, as their manifests list them. Throws CKP-006 for a rank
  // that is missing or of another save.
  std::vector<FileRecord> gather(std::uint32_t world_size, std::uint64_t step);

  // Makes the checkpoint durable under its name, moves `latest`, and removes the checkpoint that it replaces.
  // world_size: 0 if it is not sharded. line: of the run that saves.
  void commit(std::uint64_t step, std::uint32_t world_size, std::vector<FileRecord> written, Latest latest, Line& line);

  // Removes what this rank has written, and the temporary directory if it is empty then: for saves that failed on any
  // rank before the commit. Throws nothing; clean_stale_checkpoints removes the rest.
  void abandon() noexcept;

  // Makes the destructor remove nothing: for a first rank that does not know whether the others have failed.
  void leave() { stays_ = true; }

  // Returns the bytes that were written, whether the names are durable, and what the caller should know. Times are 0.
  WriteReport report() const;
  const std::shared_ptr<const Directory>& parent() const { return parent_; }

 private:
  FileRecord write_tensors_file(const Directory& directory, const std::string& prefix, std::string_view stem,
                                const TensorTable& tensors, const TensorSource& source);
  FileRecord write_record(const Directory& directory, const std::string& prefix, std::string_view name,
                          const std::string& text);
  std::vector<FileRecord> write_content(const Directory& directory, const std::string& prefix, const Content& content);
  void sync(const Directory& directory) { names_durable_ = directory.sync() && names_durable_; }
  CommitMethod chosen_method() const;
  bool renames() const { return method_ == CommitMethod::kRename; }
  void refuse_existing(const Directory& existing) const;
  bool has_replaceable() const;
  void lock_temporary();
  void claim_name();
  bool try_mark(const std::string& text);
  void require_good_copy();
  void require_replaceable(const Directory& existing) const;
  bool is_kept() const;
  void set_aside();
  void open_to_others();
  void remove_replaced();
  void remove_temporary();
  bool take_name();
  std::optional<bool> try_take_name();
  void keep_name();
  void move_latest(Line& line);
  void discard_latest();
  bool put_latest(const std::string& named);

  const CheckpointOptions& options_;
  const std::string name_;
  const std::string save_id_;
  const Writer writer_;
  const std::shared_ptr<const Directory> parent_;
  const CommitMethod method_;
  const std::string temporary_;   // the name until the commit: that of the checkpoint if there is no rename
  std::optional<Directory> own_;  // the temporary directory; its lock shows that the save is alive
  std::optional<Directory> old_;  // the replaced checkpoint, locked until it is removed
  std::string aside_;             // its name, if it was renamed and not exchanged
  bool keeps_aside_ = false;      // it is not removed
  std::string own_rank_;          // made by write_rank
  bool stays_ = false;            // the destructor removes nothing
  bool is_verified_ = false;      // require_good_copy has found it complete
  std::vector<std::string> warnings_;
  bool names_durable_ = true;
  std::uint64_t written_bytes_ = 0;
};

}  // namespace tzmark::checkpoint
