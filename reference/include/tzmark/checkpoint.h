// Asynchronous checkpoints of a training run. reference/CHECKPOINTS.md specifies the files.
//
// save copies the tensors to host memory, returns, and writes in the background. A checkpoint is a directory that
// appears under its name only after every byte of it is durable; where directories cannot be renamed, its commit.json
// does. One save is in flight at a time; the memory of the copy is allocated once and reused.
//
// Thread-safety: an AsyncCheckpointer is for one thread at a time. The free functions may be called from any thread.
// Ownership: tensors passed to save are views, used until it returns. A LoadedCheckpoint owns its tensors' bytes.
// Errors: tzmark::Error with a message that names the file: CKP rules, and those of reading and writing files.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/buffer.h"
#include "tzmark/error.h"
#include "tzmark/format.h"
#include "tzmark/io.h"
#include "tzmark/memory.h"
#include "tzmark/upload.h"

namespace tzmark {

// Private to the library.
class SnapshotPool;
struct SaveTask;
namespace checkpoint {
class Claims;
class Line;
class RetentionPolicy;
}  // namespace checkpoint

// A tensor in host or device memory. data must have the size that shape and dtype give. The caller synchronizes streams
// that compute device memory before save. Copies from the device use pinned memory, or pageable memory where the system
// limits pinning.
struct CheckpointTensor {
  std::string name;
  std::string dtype;  // torch's name without "torch.": "bfloat16"
  std::vector<std::uint64_t> shape;
  ConstBuffer data;
};

using TensorViews = std::span<const CheckpointTensor>;

struct TrainingState {
  std::uint32_t version = 2;
  std::uint64_t step = 0;
  std::uint64_t epoch = 0;
  double learning_rate = 0;
  std::map<std::string, std::string> metadata;

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

// The most ranks that a checkpoint can have: their files fit in a commit.json of 64 MiB, the most that readers accept.
inline constexpr std::uint32_t kWorldSizeMax = 1 << 16;

// The division of a model among the ranks of a sharded checkpoint.
struct Sharding {
  enum class Strategy : std::uint8_t {
    kReplicated,       // every rank has all tensors
    kZeroPartitioned,  // every rank has some whole tensors
    kTensorParallel,   // every rank has a part of each tensor in split_dims, and all other tensors
  };
  Strategy strategy = Strategy::kReplicated;
  std::uint32_t zero_stage = 3;                     // for kZeroPartitioned
  std::vector<std::string> owned_params;            // of this rank; empty: all tensors of its model
  std::map<std::string, std::uint64_t> split_dims;  // for kTensorParallel: parameter to dimension, equal on all ranks

  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// Communication among the ranks of one sharded save.
struct SaveGroup {
  // The same for all ranks of a save, and never used before: letters, digits, '-', '_' and '.', 64 at most.
  std::string save_id;
  // Waits until every rank has called it, and returns whether all passed true. save_distributed calls it twice on every
  // rank, also after a failure, so that no rank waits forever: from the background thread, or from the calling thread
  // if the system starts none. After an exception it is not called again for this save.
  std::function<bool(bool mine_ok)> agree;
};

struct CheckpointInfo;

// The checkpoints that are kept, besides the one just written; older ones are deleted, oldest first. Only those count
// and are deleted from which the new one continues (see AsyncCheckpointer::continue_from) and that have the name under
// which they were saved: no copies, no other runs, and none of a release that did not record that. Before the first
// deletion, the new one and those counted as the latest are read from the device and verified. An AsyncCheckpointer
// verifies each checkpoint once; later it checks that all files exist with their sizes. A checkpoint that fails does
// not count, and is kept while it is newer than those that do. Checkpoints with files that no save writes are not
// deleted. What cannot be deleted is a warning, since the new checkpoint is durable. If that one fails verification,
// nothing is deleted and the save fails; of several ranks, only rank 0 throws that error.
struct Retention {
  std::size_t keep_latest = 0;       // verified ones, those committed last; 0: all
  std::uint64_t keep_every = 0;      // also those whose step is a multiple; 0: none
  std::vector<std::string> protect;  // also those of these names, without the parent
  // Also those for which this returns true. Called from the background thread for each one that would be deleted or
  // replaced, before the first deletion. What it throws, wait throws, and nothing is deleted; nor is a checkpoint
  // committed that would replace another one. It must not call the checkpointer, which would wait for its own save:
  // that throws kUsage.
  std::function<bool(const CheckpointInfo& info, const TrainingState& state)> keep;
};

// How a checkpoint becomes valid. Both keep the promise that it is complete or absent.
enum class CommitMethod : std::uint8_t {
  kAuto,    // kRename where directories can be renamed, which each save tries with one of its own; otherwise kMarker
  kRename,  // it is written under a temporary name and then gets its own
  // It is written under its own name, and commit.json, written last, makes it valid: for mounts of object stores, where
  // directories cannot be renamed. An existing checkpoint cannot be replaced. Other programs may see files of an
  // incomplete one.
  kMarker,
};
std::string_view commit_method_name(CommitMethod method);  // "auto", "rename", "marker"
std::optional<CommitMethod> commit_method_from_name(std::string_view name);

struct CheckpointOptions {
  enum class Format : std::uint8_t { kSafetensors, kTensors };
  enum class Existing : std::uint8_t {
    // An old checkpoint of that name is replaced in one step, after the new one has been read from the device and
    // verified; if that fails, the old one is kept and the save fails. A directory that is not empty and has no valid
    // commit.json is not replaced. An old checkpoint with other files is kept under a temporary name, and one that
    // Retention protects or keeps under NAME.replaced-ID. Where two names cannot be exchanged, as on NFS, the name is
    // missing for a moment. If the old one cannot be renamed, as in a lower layer of an overlay, the save fails before
    // it writes anything.
    kExchange,
    kRefuse,
  };
  Format format = Format::kSafetensors;
  std::optional<Layout> layout;  // for .tensors; none: the lowest that the content needs
  bool sha256 = true;            // in .tensors, besides CRC32; takes a core per large tensor
  std::string io_path = "auto";
  static constexpr unsigned kThreadsMax = 1 << 16;
  unsigned threads = 0;               // copy and write threads, at most kThreadsMax; 0: one per core
  std::size_t piece_bytes = 2 << 20;  // the largest transfer
  // For the snapshot and I/O buffers together; 0: no limit. A save reuses the memory of the previous one after that is
  // written, and one that cannot fit throws TZE-ENV-006 before it copies anything.
  std::uint64_t memory_limit_bytes = 0;
  Existing existing = Existing::kExchange;
  CommitMethod commit = CommitMethod::kAuto;        // the same for all ranks
  Durability durability = Durability::kIfPossible;  // kRequired: fails before anything is written
  // Whether a save fails with TZE-ENV-008 if another checkpointer saves to the same directory; otherwise the report
  // names its process. Seen by a lock on .tzmark-writer, which the file system has to share with other machines; also
  // by commits between two saves.
  bool exclusive = false;
  Retention retention;

  // Throws kUsage for invalid options. Called by everything that writes checkpoints.
  void check() const;
};

// The time that save took before it returned.
struct SaveTimes {
  std::uint64_t wait_ns = 0;    // for the previous write
  std::uint64_t copy_ns = 0;    // of tensors
  std::uint64_t submit_ns = 0;  // starting the background thread
};

// The work of the background thread. All zeros if nothing was written.
struct WriteReport {
  std::uint64_t snapshot_bytes = 0;
  std::uint64_t file_bytes = 0;    // written by this rank, all files
  std::uint64_t drain_ns = 0;      // until the last file of this rank was durable
  std::uint64_t commit_ns = 0;     // then until the checkpoint and `latest` were durable
  std::uint64_t retention_ns = 0;  // verifying and deleting
  // Of the first rank: whether a loss of power cannot undo the names. false: the file system has no fsync of
  // directories.
  bool names_durable = false;
  CommitMethod commit = CommitMethod::kAuto;  // the one that was used
  // Sentences: what was not deleted, which older checkpoints failed verification, and who else saves there. Not errors.
  std::vector<std::string> warnings;
};

class AsyncCheckpointer {
 public:
  // Throws kUsage for invalid options.
  explicit AsyncCheckpointer(CheckpointOptions options = {});
  // Waits for the last write. Its error is lost unless wait was called.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  // Makes the next save the successor of a checkpoint: call it with LoadedCheckpoint::save_id after a program has
  // continued from that. An empty id, and the state without any call, is a new start. Waits for the write in flight.
  void continue_from(const std::string& save_id);

  // Lets other processes see that this one will save to a directory, which must exist. Otherwise the first save does
  // that. Throws TZE-ENV-008 if options.exclusive is set and another one does, and otherwise returns a sentence that
  // names it, once. Waits for the write in flight, as release does, which ends it.
  std::string claim(const std::string& parent);
  void release();

  // Allocates and populates memory for snapshots, so that the first save does not have to.
  void reserve(std::uint64_t bytes);

  // Writes a checkpoint to directory, whose parent must exist. An empty optimizer means none. The tensors may change
  // after this returns. If the previous write has failed, its error is thrown here, and the new checkpoint is written
  // nevertheless; if this call's own tensors cannot be saved, it throws that error, and the other one is kept for the
  // next wait or save. If the system starts no thread, it writes before it returns.
  SaveTimes save(const std::string& directory, TensorViews model, TensorViews optimizer, const TrainingState& state);

  // The same for one of several ranks. All ranks pass the same directory, on a common file system, and the same step,
  // save id and world_size, which is at most kWorldSizeMax. The checkpoint appears when all ranks have written their
  // shards; if one rank fails, the background write of every rank fails.
  SaveTimes save_distributed(const std::string& directory, std::uint32_t rank, std::uint32_t world_size,
                             TensorViews model, TensorViews optimizer, const TrainingState& state,
                             const Sharding& sharding, const SaveGroup& group);

  // For a rank that cannot take part in a save of the others: fails it on all of them, in the background.
  void decline(const SaveGroup& group);

  // Waits until nothing is in flight and returns the report of the last write. Throws the error of that write, once.
  WriteReport wait();

  // Returns the times of the last save, also if it threw the error of the previous write.
  const SaveTimes& last_times() const { return times_; }
  std::uint64_t snapshot_memory_bytes() const;  // allocated now

 private:
  SaveTimes run(SaveTask task);
  void take_snapshot(SaveTask& task);
  void wait_for_writing() const;
  void finish_previous();
  std::uint64_t write_buffer_bytes(std::uint64_t snapshot_bytes) const;

  CheckpointOptions options_;
  std::unique_ptr<SnapshotPool> pool_;
  std::unique_ptr<checkpoint::Claims> claims_;
  std::unique_ptr<checkpoint::Line> line_;
  std::unique_ptr<checkpoint::RetentionPolicy> retention_;
  SaveTimes times_;
  WriteReport report_;
  std::future<WriteReport> writing_;
  std::exception_ptr error_;  // of a write, not thrown yet
};

struct CheckpointReadOptions {
  enum class Commit : std::uint8_t {
    kRequired,
    // Also accepts directories without commit.json, as other programs write them: they may be incomplete.
    kNotRequired,
  };
  Commit commit = Commit::kRequired;
  bool from_device = false;  // drop the page cache of the files, so that reads come from the device
  unsigned threads = 0;      // 0: one per core
  std::string io_path = "auto";
};

// A checkpoint, or one rank's shard of it, in memory. Move-only. Tensors keep their offsets in the file: in files of
// other programs they may be unaligned, and their data must be copied before it is used as numbers.
struct LoadedCheckpoint {
  TrainingState state;
  std::vector<CheckpointTensor> model;      // in file order
  std::vector<CheckpointTensor> optimizer;  // may be empty
  std::optional<Sharding> sharding;         // of a shard
  std::string save_id;                      // empty without commit.json
  std::vector<HostMemory> memory;           // of the tensors
};

// Reads each file once and checks it against commit.json.
// Throws CKP-001 without a commit.json, CKP-002 for files that differ from it, CKP-004 for a sharded checkpoint.
LoadedCheckpoint load_checkpoint(const std::string& directory, const CheckpointReadOptions& options = {});
// The same for one rank. Throws CKP-004 unless world_size ranks have saved the checkpoint.
LoadedCheckpoint load_distributed_checkpoint(const std::string& directory, std::uint32_t rank, std::uint32_t world_size,
                                             const CheckpointReadOptions& options = {});

// Saves of one run, up to one of them.
struct RunPart {
  std::string run;
  std::uint64_t last_sequence = 0;

  friend bool operator==(const RunPart&, const RunPart&) = default;
};

// The place of a checkpoint among those of its directory, as its commit.json records it. Checkpoints of releases that
// recorded none have sequence 0.
struct CheckpointOrigin {
  std::string name;            // of the directory that was committed; copies under other names keep it
  std::uint64_t sequence = 0;  // higher than all in the directory before
  std::string parent;          // save id of the checkpoint from which this one continues; empty: none
  std::string run;             // the saves of one checkpointer since it started or last continued from a checkpoint
  std::vector<RunPart> line;   // the runs from which this one continues
  std::string host;            // of the process that committed
  std::uint64_t pid = 0;

  friend bool operator==(const CheckpointOrigin&, const CheckpointOrigin&) = default;
};

struct CheckpointInfo {
  enum class Status : std::uint8_t {
    kCommitted,    // commit.json is valid; verify_checkpoint checks the files
    kUncommitted,  // looks like a checkpoint without a valid commit.json
    kTemporary,    // of a save in progress or one that died, or being deleted; with kMarker, under its own name
    kUnreadable,   // cannot be read, so its state is unknown
  };
  std::string directory;  // including the parent
  Status status = Status::kUncommitted;
  std::string problem;      // why it is not committed
  bool is_damaged = false;  // it has a commit.json that is not valid
  bool is_unread = false;   // it has a commit.json that the system failed to read
  // The following are set for committed ones only.
  std::string save_id;
  std::uint64_t step = 0;
  std::uint32_t world_size = 0;  // 0: not sharded
  std::uint64_t committed_unix_ns = 0;
  std::uint64_t file_bytes = 0;
  std::size_t file_count = 0;
  CommitMethod commit = CommitMethod::kRename;
  CheckpointOrigin origin;
  bool is_original = false;  // has the name of its origin: false for copies
  bool is_on_line = false;   // the newest checkpoint, or one from which that continues; false if it is not recorded
};

// Lists the checkpoints in a directory, committed ones last and in the order of their commits. Throws TZE-ENV rules if
// the directory cannot be read; an entry that cannot be read is listed with its problem.
std::vector<CheckpointInfo> list_checkpoints(const std::string& parent);
// Returns the checkpoint that was committed last, whatever its step. Throws CKP-002 if a damaged one may be newer, and
// TZE-ENV-002 if one may be newer whose commit.json the system failed to read.
std::optional<CheckpointInfo> find_newest_checkpoint(const std::string& parent);
// The committed checkpoints in the order in which to try them: the newest, those from which it continues, and then all
// others; each from newer to older.
struct CheckpointCandidates {
  std::vector<CheckpointInfo> checkpoints;
  std::vector<std::string> passed_over;  // sentences: which others look like checkpoints, and why they do not count
  // Why one of those may be the newest: its commit.json is not valid or failed to be read, or `latest` names it. Empty
  // if there is none.
  std::string damage;
  ErrorCode damage_code = ErrorCode::kCheckpointDamaged;  // or kReadFailed
};
CheckpointCandidates list_checkpoint_candidates(const std::string& parent);
struct IntactCheckpoint {
  std::optional<CheckpointInfo> found;
  std::vector<std::string> passed_over;  // the same, and which candidates failed verification
};
// Verifies the candidates until one is intact. Returns none if there are no candidates; throws CKP-002 if none of them
// is intact.
IntactCheckpoint find_intact_checkpoint(const std::string& parent, const CheckpointReadOptions& options = {});
// Returns the directory that the file `latest` names, including the parent, if that file exists.
std::optional<std::string> read_latest_checkpoint(const std::string& parent);
// Reads every file of a checkpoint and throws if one differs from commit.json or cannot be loaded.
CheckpointInfo verify_checkpoint(const std::string& directory, const CheckpointReadOptions& options = {});

// Returns "process 42 on host-a saves there" if another process saves to a directory, as the lock on .tzmark-writer
// shows, or says why that cannot be known; empty if none does. Where locks of directories do not reach other machines,
// call clean_stale_checkpoints only if this is empty: it would delete what that process writes.
std::string other_writer(const std::string& parent);

struct CleanedCheckpoints {
  std::vector<std::string> removed;  // directories
  std::vector<std::string> kept;     // sentences: what was not deleted, and why
};
// Deletes what interrupted saves and deletions have left: directories with a marked temporary name, or with a marker in
// them (CommitMethod::kMarker), that no process has locked, and that contain only files that saves write. Called by one
// rank when a program starts.
CleanedCheckpoints clean_stale_checkpoints(const std::string& parent);

// Merges a sharded checkpoint to one that is not sharded, or reshards it to another number of ranks. Streams tensors,
// so memory does not depend on the size of the model. Throws CKP-005 for shards that do not fit together, and kUsage if
// both directories have the same parent, or that of the result has a file `latest`: there the result would count as a
// checkpoint of a run. Before writing anything, throws kUsage for a world_size of 0, above kWorldSizeMax, or that does
// not divide a dimension of split_dims, and TZE-ENV-006 if sharding_meta.json would exceed 64 MiB.
//   Replicated       takes rank 0's tensors; all ranks must be equal
//   ZeroPartitioned  takes all tensors; those of several ranks must be equal. Resharded by bytes
//   TensorParallel   joined or cut along split_dims, as are optimizer tensors NAME.ANYTHING of the shape of NAME
WriteReport consolidate_checkpoint(const std::string& directory, const std::string& out_directory,
                                   const CheckpointReadOptions& from = {}, const CheckpointOptions& to = {});
WriteReport reshard_checkpoint(const std::string& directory, const std::string& out_directory, std::uint32_t world_size,
                               const CheckpointReadOptions& from = {}, const CheckpointOptions& to = {});

struct UploadedCheckpoint {
  std::uint64_t step = 0, file_bytes = 0;
  std::size_t file_count = 0;  // objects, with commit.json
  bool was_there = false;      // the same checkpoint, all of it: nothing was sent
  std::uint64_t requests = 0, retries = 0;
  std::vector<std::string> removed_uploads;  // URLs of objects whose unfinished uploads were removed
  std::string why_not_listed = {};           // why there may be others; empty if there are none
};
// Copies a committed checkpoint to S3, where its files are the objects s3_prefix/FILE. The digest of what is sent is
// compared with commit.json, which is sent last: who reads it finds all files, or does not find it. upload.json, the
// same text, is sent first, so that no other checkpoint comes to the same prefix. What an earlier call for this one
// that was killed has left is removed from the server (unfinished uploads) or replaced; of what is there already, files
// that are missing or of another size are sent again. Throws CKP-001 without a commit.json, CKP-002 for a file that
// differs from it, TZE-ENV-001 if another checkpoint is there or on its way, and what upload throws.
UploadedCheckpoint upload_checkpoint(const std::string& directory, const std::string& s3_prefix,
                                     const CheckpointReadOptions& options = {},
                                     const UploadOptions& upload_options = {});

}  // namespace tzmark
