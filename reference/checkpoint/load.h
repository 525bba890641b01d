// Reading checkpoints: which files there should be, whether they are as they should be, and what is in them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "checkpoint/records.h"
#include "tzmark/checkpoint.h"
#include "tzmark/reader.h"
#include "tzmark/safetensors.h"
#include "tzmark/writer.h"

namespace tzmark::checkpoint {

// A directory that is opened to be read: its records, and where its files are.
class StoredCheckpoint {
 public:
  // Throws CKP-001 without a commit.json that can be used, if one is required.
  StoredCheckpoint(std::string directory, const CheckpointReadOptions& options);

  const std::string& directory() const { return directory_; }
  const CheckpointReadOptions& options() const { return options_; }
  const std::optional<CommitRecord>& commit() const { return commit_; }
  // 0: not sharded.
  std::uint32_t world_size() const { return sharding_ ? sharding_->world_size() : 0; }
  const std::optional<ShardingMeta>& sharding() const { return sharding_; }

  std::string path(const std::string& name) const { return directory_ + "/" + name; }
  // "" for a checkpoint that is not sharded, "rank_N/" otherwise.
  std::string prefix(std::uint32_t rank) const;
  // The file of tensors, in whichever format. stem: "model" or "optimizer". Nothing if there is none.
  std::optional<std::string> tensors_name(const std::string& prefix, std::string_view stem) const;
  // Throws CKP-002 if commit.json knows of a model and there is no such file, and the like.
  TrainingState state(const std::string& prefix) const;

  // What commit.json says of a file; nothing without one. Throws CKP-002 for a file that it does not list.
  const FileDigest* expected(const std::string& name) const;
  // Throws CKP-002 unless the file is there, with the size that it should have.
  std::unique_ptr<File> open(const std::string& name) const;
  // Reads the file once and checks its digest. into: empty, or as long as the file and filled with it.
  void read(const std::string& name, File& file, std::span<std::byte> into) const;

 private:
  bool has(const std::string& name) const;       // as the records say
  bool has_file(const std::string& name) const;  // a regular one, reached without symbolic links
  std::string small_file(const std::string& name) const;

  const std::string directory_;
  const CheckpointReadOptions options_;
  const std::shared_ptr<FileSystem> files_;
  std::unique_ptr<OpenDirectory> top_;
  std::optional<CommitRecord> commit_;
  std::unordered_map<std::string, FileDigest> digests_;  // of the files of commit_, by name
  std::optional<ShardingMeta> sharding_;
};

// The name of a tensor, as a caller of save gave it. Throws kUsage for a structured one.
std::string plain_name(const TensorInfo& tensor);

// A file of tensors in either format, as a source.
class TensorFile {
 public:
  // name: whose ending says what it is.
  TensorFile(const std::string& name, std::unique_ptr<File> file);

  const TensorTable& table() const { return table_; }
  const TensorSource& source() const;
  // Where the data of a tensor begins in the file.
  std::uint64_t data_offset(std::size_t tensor) const;

 private:
  std::optional<SafetensorsReader> safetensors_;
  std::optional<Reader> tensors_;
  TensorTable table_;
};

}  // namespace tzmark::checkpoint
