// Checkpoints of a training run, written behind it. reference/CHECKPOINTS.md describes what lies on disk.
//
// save copies the tensors to host memory, returns, and writes in the background. A checkpoint is a directory that
// appears under its name when every byte of it is durable, and not before. One save is in flight at a time; memory for
// the copy is made once and used again.
//
// Thread-safety: an AsyncCheckpointer is for one thread at a time. The free functions may be called from any.
// Ownership: tensors handed to save are views, used until it returns. A LoadedCheckpoint owns what its tensors show.
// Errors: tzmark::Error, the message of which names the file that it is about: CKP rules, and what reading and writing
// files throws.
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
#include <vector>

#include "tzmark/buffer.h"
#include "tzmark/file_system.h"
#include "tzmark/format.h"
#include "tzmark/memory.h"

namespace tzmark {

// Private to the library.
class SnapshotPool;
struct SaveTask;
namespace checkpoint {
class RetentionPolicy;
}

// A tensor in memory of any kind. data has exactly the bytes that shape and dtype say. Device memory must be complete:
// whoever computes it on a stream synchronizes before save, which knows of no streams. A copy from there goes through
// pinned memory, or through ordinary memory where the system does not let so much be pinned.
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

// The most ranks that a checkpoint can have: the files of so many can be listed in commit.json, of which no reader
// takes more than 64 MiB.
inline constexpr std::uint32_t kWorldSizeMax = 1 << 16;

// How the ranks of a sharded checkpoint divide a model.
struct Sharding {
  enum class Strategy : std::uint8_t {
    kReplicated,       // every rank has everything
    kZeroPartitioned,  // every rank has some of the tensors, whole
    kTensorParallel,   // every rank has a part of each tensor of split_dims, and all of the others
  };
  Strategy strategy = Strategy::kReplicated;
  std::uint32_t zero_stage = 3;                     // of kZeroPartitioned
  std::vector<std::string> owned_params;            // of this rank; empty: all that its model has
  std::map<std::string, std::uint64_t> split_dims;  // of kTensorParallel: parameter to dimension, equal on all ranks

  friend bool operator==(const Sharding&, const Sharding&) = default;
};

// How the ranks of one sharded save come together.
struct SaveGroup {
  // The same for all ranks of a save, and never used before: letters, digits, '-', '_' and '.', 64 at most.
  std::string save_id;
  // Waits until every rank has called it, and returns whether all of them said true. save_distributed calls it twice on
  // every rank, whatever has failed on that rank before, so that nobody waits for ever: from the background thread, or
  // from the calling one if the system starts no thread. If it throws, the group counts as broken and is not called
  // again for this save.
  std::function<bool(bool mine_ok)> agree;
};

// Which checkpoints beside the one that was just written stay; the others are deleted, oldest first. Before the first
// deletion, the new one and those that count as the latest are read back from disk and verified. An AsyncCheckpointer
// does so once for each checkpoint; later it checks that all files are there with their sizes. A checkpoint that fails
// does not count, and stays as long as it is newer than those that do. Checkpoints with files that no save writes are
// not deleted. A failure here is thrown although the new checkpoint is durable, and says so; of several ranks, on rank
// 0 alone.
struct Retention {
  std::size_t keep_latest = 0;   // whole ones, by step; 0: all of them
  std::uint64_t keep_every = 0;  // and those whose step is a multiple of this, too; 0: none
};

struct CheckpointOptions {
  enum class Format : std::uint8_t { kSafetensors, kTensors };
  enum class Existing : std::uint8_t {
    // The old checkpoint of that name is there until the new one takes its place in one moment, after it has been read
    // back from disk and found whole. Otherwise the old one stays, and the save fails. A directory that contains other
    // files and no commit.json is not replaced. An old checkpoint with other files keeps its temporary name.
    kExchange,
    kRefuse,
  };
  Format format = Format::kSafetensors;
  std::optional<Layout> layout;  // of .tensors; none: the lowest that the content needs
  bool sha256 = true;            // in .tensors, beside its CRC32; it keeps a core busy for each large tensor
  std::string io_path = "auto";
  static constexpr unsigned kThreadsMax = 1 << 16;
  unsigned threads = 0;               // that copy and write, at most kThreadsMax; 0: one per core
  std::size_t piece_bytes = 2 << 20;  // of a transfer, at most
  // Of snapshot and I/O buffers together; 0: no limit. A save waits for the memory of the one before, and one that
  // could never fit throws TZE-ENV-006 before anything is copied.
  std::uint64_t memory_limit_bytes = 0;
  Existing existing = Existing::kExchange;
  Retention retention;
  std::shared_ptr<FileSystem> file_system;  // none: the system's

  // Throws kUsage for options that make no sense. Whatever writes a checkpoint calls it first.
  void check() const;
};

// What save has spent before it returned, in nanoseconds.
struct SaveTimes {
  std::uint64_t wait_ns = 0;    // for the write before
  std::uint64_t copy_ns = 0;    // of the tensors
  std::uint64_t submit_ns = 0;  // starting the background thread
};

// What the background thread has done. All zeros if nothing was written.
struct WriteReport {
  std::uint64_t snapshot_bytes = 0;
  std::uint64_t file_bytes = 0;    // written by this rank, all files
  std::uint64_t drain_ns = 0;      // from its start until the last file of this rank was durable
  std::uint64_t commit_ns = 0;     // from there until the checkpoint was durable under its name, and latest too
  std::uint64_t retention_ns = 0;  // verifying and deleting
  // Sentences: what was not deleted, and which older checkpoint failed verification. No reason to stop.
  std::vector<std::string> warnings;
};

class AsyncCheckpointer {
 public:
  // Throws kUsage for options that make no sense.
  explicit AsyncCheckpointer(CheckpointOptions options = {});
  // Waits. What the last write threw is lost if nobody called wait.
  ~AsyncCheckpointer();
  AsyncCheckpointer(const AsyncCheckpointer&) = delete;
  AsyncCheckpointer& operator=(const AsyncCheckpointer&) = delete;

  // Makes memory for snapshots of so many bytes, and its pages, so that the first save does not have to.
  void reserve(std::uint64_t bytes);

  // Writes a checkpoint to directory, whose parent must exist. An empty optimizer is none. The tensors may be changed
  // as soon as this has returned. If the write before has failed, its error is thrown here, and the new checkpoint is
  // written all the same; but a call whose own tensors cannot be saved throws that, and the other error stays for the
  // next wait or save. If the system starts no thread, it writes before it returns.
  SaveTimes save(const std::string& directory, TensorViews model, TensorViews optimizer, const TrainingState& state);

  // The same for one rank of several, each of which calls it with the same directory, world_size, step, and save id;
  // world_size is at most kWorldSizeMax;
  // the ranks need a common file system. The checkpoint appears when all of them have written their shard, and the
  // background write of every rank fails if that of one does.
  SaveTimes save_distributed(const std::string& directory, std::uint32_t rank, std::uint32_t world_size,
                             TensorViews model, TensorViews optimizer, const TrainingState& state,
                             const Sharding& sharding, const SaveGroup& group);

  // Returns when nothing is in flight, with what was written last. Throws what that write has thrown, once.
  WriteReport wait();

  // Of the save called last, also if it threw the error of the one before.
  const SaveTimes& last_times() const { return times_; }
  std::uint64_t snapshot_memory_bytes() const;  // held now, for this save or the next

 private:
  SaveTimes run(SaveTask task);
  void take_snapshot(SaveTask& task);
  void finish_previous();
  std::uint64_t write_buffer_bytes(std::uint64_t snapshot_bytes) const;

  CheckpointOptions options_;
  std::unique_ptr<SnapshotPool> pool_;
  std::unique_ptr<checkpoint::RetentionPolicy> retention_;
  SaveTimes times_;
  WriteReport report_;
  std::future<WriteReport> writing_;
  std::exception_ptr error_;  // of a write that nobody has been told of
};

struct CheckpointReadOptions {
  enum class Commit : std::uint8_t {
    kRequired,
    // Also directories without commit.json, which other programs write: nothing says then that they are whole.
    kNotRequired,
  };
  Commit commit = Commit::kRequired;
  bool from_device = false;  // forget what the system has cached of the files, so that the device is asked
  unsigned threads = 0;      // 0: one a core
  std::string io_path = "auto";
  std::shared_ptr<FileSystem> file_system;  // none: the system's
};

// A checkpoint, or one rank's shard of it, in memory. Moves and does not copy. The tensors lie as they do in the file:
// files of other programs may leave them unaligned, so that their data has to be copied before it is used as numbers.
struct LoadedCheckpoint {
  TrainingState state;
  std::vector<CheckpointTensor> model;      // in the order of their file
  std::vector<CheckpointTensor> optimizer;  // empty if there is none
  std::optional<Sharding> sharding;         // of a shard
  std::string save_id;                      // empty without commit.json
  std::vector<HostMemory> memory;           // that the tensors show
};

// Each file is read once, and checked against commit.json on the way.
// Throws CKP-001 without a commit.json, CKP-002 for files that differ from it, CKP-004 for a sharded checkpoint.
LoadedCheckpoint load_checkpoint(const std::string& directory, const CheckpointReadOptions& options = {});
// Throws CKP-004 unless world_size ranks have saved it.
LoadedCheckpoint load_distributed_checkpoint(const std::string& directory, std::uint32_t rank, std::uint32_t world_size,
                                             const CheckpointReadOptions& options = {});

struct CheckpointInfo {
  enum class Status : std::uint8_t {
    kCommitted,    // commit.json is whole; verify_checkpoint tells whether the rest is
    kUncommitted,  // looks like a checkpoint, and has no commit.json that can be used
    kTemporary,    // of a save that goes on or has died, or on its way to be deleted
    kUnreadable,   // the system refuses to read it: nothing is known about it
  };
  std::string directory;  // with that of the parent
  Status status = Status::kUncommitted;
  std::string problem;  // why it is not committed
  // The rest of committed ones only.
  std::string save_id;
  std::uint64_t step = 0;
  std::uint32_t world_size = 0;  // 0: not sharded
  std::uint64_t committed_unix_ns = 0;
  std::uint64_t file_bytes = 0;
  std::size_t file_count = 0;
};

// All in a directory, committed ones last and in the order of their steps. Throws TZE-ENV rules if the directory itself
// cannot be read; an entry that cannot is listed with its problem, and does not hide the others.
std::vector<CheckpointInfo> list_checkpoints(const std::string& parent, const CheckpointReadOptions& options = {});
// The committed one of the highest step, and of several the one that was committed last.
std::optional<CheckpointInfo> find_newest_checkpoint(const std::string& parent,
                                                     const CheckpointReadOptions& options = {});
// What the file `latest` names, with the parent's name before it; nothing if there is no such file.
std::optional<std::string> read_latest_checkpoint(const std::string& parent, const CheckpointReadOptions& options = {});
// Reads every file of a checkpoint and throws if it is not as commit.json says, or cannot be loaded.
CheckpointInfo verify_checkpoint(const std::string& directory, const CheckpointReadOptions& options = {});

struct CleanedCheckpoints {
  std::vector<std::string> removed;  // directories
  std::vector<std::string> kept;     // sentences: which temporary directory was not deleted, and why
};
// Deletes what saves that have died, and deletions that were interrupted, left behind. Only directories whose temporary
// name carries the mark of a save, which no living process works on, and which contain nothing but files that saves
// write. One rank calls it when a program starts.
CleanedCheckpoints clean_stale_checkpoints(const std::string& parent,
                                           const std::shared_ptr<FileSystem>& file_system = nullptr);

// Puts a sharded checkpoint together to one that is not, or deals it out to another number of ranks. Tensors are
// streamed: memory in proportion to one piece, not to the model. Throws CKP-005 for shards that do not fit together,
// and kUsage if the two directories have one parent: there the result would count as a checkpoint of the same run.
// Before anything is written: kUsage for a world_size of 0, above kWorldSizeMax, or that does not divide a dimension of
// split_dims; TZE-ENV-006 if sharding_meta.json would have more than 64 MiB.
//   Replicated       rank 0's, after the ranks are found to be equal
//   ZeroPartitioned  all tensors; what several ranks have must be equal. Dealt out by bytes
//   TensorParallel   joined, or cut, along split_dims. Optimizer entries NAME.ANYTHING of the shape of NAME follow it
void consolidate_checkpoint(const std::string& directory, const std::string& out_directory,
                            const CheckpointReadOptions& from = {}, const CheckpointOptions& to = {});
void reshard_checkpoint(const std::string& directory, const std::string& out_directory, std::uint32_t world_size,
                        const CheckpointReadOptions& from = {}, const CheckpointOptions& to = {});

}  // namespace tzmark
