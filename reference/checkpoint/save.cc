// The order of a commit: content, names within, commit.json, names, the checkpoint's own name, the parent.
#include "checkpoint/save.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "bytes/cursor.h"
#include "bytes/digest.h"
#include "checkpoint/load.h"
#include "checkpoint/removal.h"
#include "io/paths.h"
#include "tzmark/safetensors.h"

namespace tzmark::checkpoint {
namespace {

constexpr int kLockTriesMax = 100;
constexpr std::chrono::milliseconds kLockPause{1};

std::uint64_t write_format(File& file, const TensorTable& tensors, const TensorSource& source,
                           const CheckpointOptions& options) {
  if (options.format == CheckpointOptions::Format::kSafetensors) {
    SafetensorsWriteOptions write;
    write.threads = options.threads;
    write.piece_bytes = options.piece_bytes;
    return write_safetensors(file, tensors, source, write);
  }
  WriteOptions write;
  write.layout = options.layout;
  write.sha256 = options.sha256;
  write.threads = options.threads;
  write.piece_bytes = options.piece_bytes;
  return write_tensors(file, tensors, source, write).file_bytes;
}

std::uint64_t unix_now_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

PendingCheckpoint::PendingCheckpoint(FileSystem& files, const std::string& directory, std::string save_id,
                                     const CheckpointOptions& options, Writer writer)
    : files_(files),
      options_(options),
      place_(place_of(directory)),
      save_id_(std::move(save_id)),
      temporary_(place_.temporary(save_id_)),
      writer_(writer) {
  check_save_id(save_id_);
  const EntryKind existing = files_.kind(place_.directory());
  if (existing != EntryKind::kNone && options_.existing == CheckpointOptions::Existing::kRefuse) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("{}: it exists already", directory));
  }
  if (existing != EntryKind::kNone && existing != EntryKind::kDirectory) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("{}: only a directory can be replaced", directory));
  }
  if (existing == EntryKind::kDirectory) require_replaceable(*files_.open_directory(place_.directory()));
  lock_temporary();
}

// Until it is locked, a program that clears up may take the new directory for one that nobody uses, lock it, and remove
// it.
void PendingCheckpoint::lock_temporary() {
  bool is_ours = false;
  for (int tries = 0; !lock_; ++tries) {
    if (tries == kLockTriesMax) throw Error(ErrorCode::kFileLocked, fmt::format("{}: it is in use", temporary_));
    if (tries > 0) std::this_thread::sleep_for(kLockPause);
    is_ours = files_.make_directory(temporary_) || is_ours;
    if (!is_ours && writer_ == Writer::kAlone) {
      throw Error(ErrorCode::kOpenFailed, fmt::format("{}: it exists already", temporary_));
    }
    try {
      lock_ = files_.lock_shared(temporary_);
    } catch (...) {
      // Another rank may have written into it by now: then it cannot be removed, and stays.
      try {
        if (is_ours) files_.remove_directory(temporary_);
      } catch (const Error&) {
      }
      throw;
    }
  }
}

void PendingCheckpoint::abandon() noexcept {
  try {
    if (!own_rank_.empty()) remove_rank(*lock_, std::exchange(own_rank_, {}));
    files_.remove_directory(temporary_);
  } catch (...) {
    // Other ranks have not taken theirs back yet, or the disk refuses.
  }
}

PendingCheckpoint::~PendingCheckpoint() {
  if (stays_ || writer_ == Writer::kOtherRank) return;
  try {
    if (!renames_ || holds_own_commit()) remove_temporary();
  } catch (...) {
    // What is left has a temporary name, and clean_stale_checkpoints removes it.
  }
}

// Whether a rename that failed has really left everything where it was.
bool PendingCheckpoint::holds_own_commit() {
  const auto named = files_.open_directory(temporary_);
  return parse_commit(read_small_file(*named, std::string(kCommitName), kRecordBytesMax)).save_id == save_id_;
}

void PendingCheckpoint::remove_temporary() {
  remove_content(*lock_);
  files_.remove_directory(temporary_);
}

// Whatever a replaced directory holds is deleted with it.
void PendingCheckpoint::require_replaceable(OpenDirectory& existing) const {
  const auto foreign = foreign_entry(existing);
  if (!foreign || existing.kind(std::string(kCommitName)) == EntryKind::kFile) return;
  throw Error(ErrorCode::kOpenFailed,
              fmt::format("{}: not replaced: it is not a checkpoint, and contains '{}'", place_.directory(), *foreign));
}

std::vector<FileRecord> PendingCheckpoint::write(const Content& content) { return write_content("", content); }

void PendingCheckpoint::write_rank(std::uint32_t rank, std::uint32_t world_size, const Content& content,
                                   const Sharding& sharding) {
  const std::string directory = rank_directory(rank);
  if (!files_.make_directory(within(directory))) {
    throw Error(ErrorCode::kUsage, fmt::format("{}: save id {} has been used before", within(directory), save_id_));
  }
  own_rank_ = directory;
  RankManifest manifest{save_id_, content.state->step, rank, world_size, sharding, {}};
  manifest.files = write_content(directory + "/", content);
  // In the other strategies every rank has every name; listing them for each rank would only fill the records.
  if (sharding.strategy == Sharding::Strategy::kZeroPartitioned && manifest.sharding.owned_params.empty()) {
    for (std::size_t i = 0; i < content.model->size(); ++i) {
      manifest.sharding.owned_params.push_back(plain_name((*content.model)[i]));
    }
  }
  write_record(directory + "/" + std::string(kManifestName), serialize_manifest(manifest));
  files_.sync_directory(within(directory));
}

std::vector<FileRecord> PendingCheckpoint::write_content(const std::string& prefix, const Content& content) {
  std::vector<FileRecord> written;
  written.push_back(write_tensors_file(prefix, kModel, *content.model, *content.model_source));
  if (content.optimizer != nullptr && content.optimizer->size() > 0) {
    written.push_back(write_tensors_file(prefix, kOptimizer, *content.optimizer, *content.optimizer_source));
  }
  written.push_back(write_record(prefix + std::string(kStateName), serialize_state(*content.state)));
  return written;
}

FileRecord PendingCheckpoint::write_tensors_file(const std::string& prefix, std::string_view stem,
                                                 const TensorTable& tensors, const TensorSource& source) {
  const bool safetensors = options_.format == CheckpointOptions::Format::kSafetensors;
  const std::string name = fmt::format("{}{}.{}", prefix, stem, safetensors ? "safetensors" : "tensors");
  const auto file = files_.create_file(within(name), options_.io_path);
  return about(within(name), [&] {
    DigestFile digesting(*file);
    const std::uint64_t file_bytes = write_format(digesting, tensors, source, options_);
    file->sync();
    const FileDigest digest = digesting.digest();
    if (digest.bytes != file_bytes) throw Error(ErrorCode::kWriteFailed, "not all of it was written", digest.bytes);
    written_bytes_ += digest.bytes;
    return FileRecord{name, digest};
  });
}

FileRecord PendingCheckpoint::write_record(const std::string& name, const std::string& text) {
  about(within(name), [&] { check_record(text); });
  write_small_file(files_, within(name), text);
  written_bytes_ += text.size();
  return {name, {text.size(), crc64(0, as_bytes(text))}};
}

std::vector<FileRecord> PendingCheckpoint::gather(std::uint32_t world_size, std::uint64_t step) {
  ShardingMeta meta;
  std::vector<FileRecord> written;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const std::string directory = rank_directory(rank);
    const std::string name = directory + "/" + std::string(kManifestName);
    const auto shard = lock_->kind(directory) == EntryKind::kDirectory ? lock_->open_directory(directory) : nullptr;
    if (!shard || shard->kind(std::string(kManifestName)) != EntryKind::kFile) {
      throw Error(ErrorCode::kCheckpointPeer, fmt::format("{}: rank {} has not written it", within(name), rank));
    }
    const std::string text = read_small_file(*shard, std::string(kManifestName), kRecordBytesMax);
    RankManifest manifest = about(within(name), [&] { return parse_manifest(text); });
    if (manifest.save_id != save_id_ || manifest.step != step || manifest.rank != rank ||
        manifest.world_size != world_size) {
      throw Error(
          ErrorCode::kCheckpointPeer,
          fmt::format("{}: it is of rank {} of {} in save {} of step {}, and not of rank {} of {} in save {} of "
                      "step {}",
                      within(name), manifest.rank, manifest.world_size, manifest.save_id, manifest.step, rank,
                      world_size, save_id_, step));
    }
    meta.shards.push_back(std::move(manifest.sharding));
    for (FileRecord& file : manifest.files) written.push_back(std::move(file));
    written.push_back({name, {text.size(), crc64(0, as_bytes(text))}});
  }
  written.push_back(write_record(std::string(kShardingName), serialize_sharding(meta)));
  return written;
}

void PendingCheckpoint::commit(std::uint64_t step, std::uint32_t world_size, std::vector<FileRecord> written,
                               Latest latest) {
  // The file that becomes `latest` is made where nobody takes it for a dead save's, and durable with all the others.
  if (latest == Latest::kMoves) write_small_file(files_, within(std::string(kLatestName)), place_.name + "\n");
  const CommitRecord record{save_id_, step, world_size, unix_now_ns(), std::move(written)};
  write_record(std::string(kCommitName), serialize_commit(record));
  files_.sync_directory(temporary_);
  const bool replaces = take_name();
  if (latest == Latest::kMoves) {
    files_.replace_file(fmt::format("{}/{}", place_.directory(), kLatestName), place_.beside(kLatestName));
    files_.sync_directory(place_.parent);
  }
  if (replaces) remove_replaced();
}

void PendingCheckpoint::remove_replaced() {
  if (const auto foreign = foreign_entry(*old_lock_)) {
    warning_ = fmt::format("{}: the replaced checkpoint is not deleted: it contains '{}', which no save writes",
                           temporary_, *foreign);
  } else {
    remove_content(*old_lock_);
    files_.remove_directory(temporary_);
  }
  old_lock_.reset();
}

// An old checkpoint gives way only to one that the disk has really got.
void PendingCheckpoint::require_good_copy() {
  CheckpointReadOptions options;
  options.from_device = true;
  options.threads = options_.threads;
  // The caller keeps the file system.
  options.file_system = std::shared_ptr<FileSystem>(std::shared_ptr<FileSystem>(), &files_);
  try {
    verify_checkpoint(temporary_, options);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: existing checkpoint kept: the replacement failed verification: {}",
                                          place_.directory(), error.message()));
  }
}

// Returns whether the temporary name is now that of an old checkpoint.
bool PendingCheckpoint::take_name() {
  const std::string directory = place_.directory();
  const bool exchanges = files_.kind(directory) != EntryKind::kNone;
  if (exchanges && options_.existing == CheckpointOptions::Existing::kRefuse) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("{}: another process has created it", directory));
  }
  if (exchanges) {
    require_good_copy();
    // Under the temporary name it would look like what a dead save has left.
    old_lock_ = files_.lock_shared(directory);
    if (!old_lock_) throw Error(ErrorCode::kFileLocked, fmt::format("{}: another process is deleting it", directory));
    require_replaceable(*old_lock_);
  }
  renames_ = true;
  if (exchanges) {
    files_.exchange(temporary_, directory);
  } else {
    files_.rename_directory(temporary_, directory);
  }
  // Until the parent is durable, a loss of power may take the exchange back: both checkpoints have to stay.
  stays_ = true;
  files_.sync_directory(place_.parent);
  return exchanges;
}

}  // namespace tzmark::checkpoint
