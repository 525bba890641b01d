// Reading checkpoints: their records, and their files checked against them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "checkpoint/records.h"
#include "os/directory.h"
#include "tzmark/checkpoint.h"
#include "tzmark/error.h"
#include "tzmark/reader.h"
#include "tzmark/safetensors.h"
#include "tzmark/writer.h"

namespace tzmark::checkpoint {

// A checkpoint that is open for reading.
class StoredCheckpoint {
 public:
  // Throws CKP-001 if a valid commit.json is required and missing.
  StoredCheckpoint(Directory directory, const CheckpointReadOptions& options);

  const std::string& directory() const { return directory_.name(); }
  const CheckpointReadOptions& options() const { return options_; }
  const std::optional<CommitRecord>& commit() const { return commit_; }
  // 0: not sharded.
  std::uint32_t world_size() const { return sharding_ ? sharding_->world_size() : 0; }
  const std::optional<ShardingMeta>& sharding() const { return sharding_; }

  std::string path(const std::string& name) const { return directory_.path(name); }
  // Returns "rank_N/", or "" for a checkpoint that is not sharded.
  std::string prefix(std::uint32_t rank) const;
  // Returns the name of a file of tensors, in either format, if there is one. stem: "model" or "optimizer".
  std::optional<std::string> tensors_name(const std::string& prefix, std::string_view stem) const;
  // Reads training_state.json. Throws CKP-002 for a file that differs from commit.json, CKP-003 for one of another
  // step.
  TrainingState state(const std::string& prefix) const;

  // Returns the digest that commit.json records, if there is one. Throws CKP-002 for a file that it does not list.
  const FileDigest* expected(const std::string& name) const;
  // Throws CKP-002 unless the file exists with the recorded size.
  std::unique_ptr<File> open(const std::string& name) const;
  // Reads the file once and checks its digest. into: empty, or as long as the file and filled with it.
  void read(const std::string& name, File& file, std::span<std::byte> into) const;

 private:
  bool has(const std::string& name) const;       // according to the records
  bool has_file(const std::string& name) const;  // a regular file, reached without symbolic links
  std::string small_file(const std::string& name) const;

  const Directory directory_;
  const CheckpointReadOptions options_;
  std::optional<CommitRecord> commit_;
  std::unordered_map<std::string, FileDigest> digests_;  // of the files of commit_, by name
  std::optional<ShardingMeta> sharding_;
};

// The most times that a checkpoint is opened which other processes replace while it is read.
inline constexpr int kReadTriesMax = 10;

// Returns whether an open directory is no longer the checkpoint of its name. Throws TZE-ENV-001 if the name is gone.
bool is_gone(const Directory& directory);

// Opens a checkpoint and calls an action with it. Does both again if that fails because another process has replaced
// the checkpoint: its files that are missing then are no damage.
template <typename Action>
auto with_stored(const std::string& name, const CheckpointReadOptions& options, Action&& action) {
  for (int tries = 1;; ++tries) {
    const Directory directory(name);
    try {
      return action(StoredCheckpoint(directory.again(), options));
    } catch (const Error& error) {
      if (options.commit == CheckpointReadOptions::Commit::kNotRequired || !is_gone(directory)) throw;
      if (tries < kReadTriesMax) continue;
      if (error.code() != ErrorCode::kCheckpointDamaged) throw;
      throw Error(ErrorCode::kOpenFailed, name + ": other processes replace it faster than it can be read");
    }
  }
}

// Returns the name that the caller of save gave. Throws kUsage for a structured name.
std::string plain_name(const TensorInfo& tensor);

// The tensors of a file in either format.
class TensorFile {
 public:
  // The ending of the name selects the format.
  TensorFile(const std::string& name, std::unique_ptr<File> file);

  const TensorTable& table() const { return table_; }
  const TensorSource& source() const;
  // Returns the offset of a tensor's data in the file.
  std::uint64_t data_offset(std::size_t tensor) const;

 private:
  std::optional<SafetensorsReader> safetensors_;
  std::optional<Reader> tensors_;
  TensorTable table_;
};

}  // namespace tzmark::checkpoint
