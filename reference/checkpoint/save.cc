// The order of a commit: content, names within, commit.json, names, the name of the checkpoint, the parent.
#include "checkpoint/save.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "bytes/cursor.h"
#include "bytes/digest.h"
#include "checkpoint/catalog.h"
#include "checkpoint/load.h"
#include "checkpoint/names.h"
#include "checkpoint/probe.h"
#include "checkpoint/removal.h"
#include "checkpoint/unfinished.h"
#include "io/paths.h"
#include "tzmark/safetensors.h"

namespace tzmark::checkpoint {
namespace {

constexpr int kLockTriesMax = 100;
constexpr std::chrono::milliseconds kLockPause{1}, kPauseMax{128};
constexpr std::chrono::milliseconds kMarkerWait{60'000};
// Until it is committed: others could lock what they can open, and so stop the save or its cleaning.
constexpr mode_t kClosedMode = 0700;

std::uint64_t write_format(File& file, const TensorTable& tensors, const TensorSource& source,
                           const CheckpointOptions& options) {
  if (options.format == CheckpointOptions::Format::kSafetensors) {
    SafetensorsWriteOptions write;
    write.metadata = torch_metadata();
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

PendingCheckpoint::PendingCheckpoint(const std::string& directory, std::string save_id,
                                     const CheckpointOptions& options, Writer writer)
    : options_(options),
      name_(place_of(directory).name),
      save_id_(std::move(save_id)),
      writer_(writer),
      parent_(std::make_shared<const Directory>(place_of(directory).parent)),
      method_(chosen_method()),
      temporary_(renames() ? temporary_name(name_, save_id_) : name_) {
  if (!renames()) {
    claim_name();
    return;
  }
  if (has_replaceable() && writer_ != Writer::kOtherRank) require_renameable(*parent_, name_);
  lock_temporary();
}

CommitMethod PendingCheckpoint::chosen_method() const {
  check_save_id(save_id_);
  if (options_.durability == Durability::kRequired) parent_->require_sync();
  if (options_.commit != CommitMethod::kAuto) return options_.commit;
  return can_rename_directories(*parent_, name_) ? CommitMethod::kRename : CommitMethod::kMarker;
}

// Returns whether there is a checkpoint to replace. Throws for anything else that has the name.
bool PendingCheckpoint::has_replaceable() const {
  for (EntryKind kind = parent_->kind(name_); kind != EntryKind::kNone; kind = parent_->kind(name_)) {
    if (options_.existing == CheckpointOptions::Existing::kRefuse) {
      throw Error(ErrorCode::kOpenFailed, fmt::format("{}: it exists already", parent_->path(name_)));
    }
    if (kind != EntryKind::kDirectory) {
      throw Error(ErrorCode::kOpenFailed, fmt::format("{}: only a directory can be replaced", parent_->path(name_)));
    }
    std::optional<Directory> existing;
    try {
      existing = parent_->open_directory(name_);
      require_replaceable(*existing);
      return true;
    } catch (const Error&) {
      // Another process may have deleted or replaced it.
      if (existing ? parent_->is_name_of(name_, existing->get()) : parent_->has(name_)) throw;
    }
  }
  return false;
}

// Makes the directory, or joins the other ranks in it. Removes what a save that died has left under this name.
void PendingCheckpoint::claim_name() {
  const std::string text = unfinished_text(name_, save_id_);
  // Another rank may be writing the marker, which takes as long as a sync on this file system does.
  const auto wait = writer_ == Writer::kAlone ? kLockTriesMax * kLockPause : kMarkerWait;
  const auto deadline = std::chrono::steady_clock::now() + wait;
  for (auto pause = kLockPause; std::chrono::steady_clock::now() < deadline; pause = std::min(2 * pause, kPauseMax)) {
    if (pause != kLockPause) std::this_thread::sleep_for(pause);
    parent_->make_directory(name_, kClosedMode);
    own_ = parent_->lock_directory(name_, Lock::kShared);
    if (!own_) continue;
    if (read_unfinished(*own_) == text) {
      // No file of this rank may be durable without the marker.
      sync(*own_);
      return;
    }
    if (own_->list().empty() && try_mark(text)) return;
    own_.reset();
    // The other ranks may be about to write the marker.
    if (clean_unfinished(*parent_, name_) != Removal::kDone && parent_->kind(name_) == EntryKind::kDirectory) {
      const Directory existing = parent_->open_directory(name_);
      if (!existing.list().empty() && marker_of(existing, name_) == Marker::kNone) refuse_existing(existing);
    }
  }
  throw Error(ErrorCode::kFileLocked, fmt::format("{}: another process saves it", parent_->path(name_)));
}

// Returns false if another rank does it at the same time.
bool PendingCheckpoint::try_mark(const std::string& text) {
  const std::string marker(kUnfinishedName);
  try {
    // An empty directory that a person has made may be open.
    static_cast<void>(own_->close_to_others());
    write_small_file(*own_, marker, text);
    sync(*own_);
    return true;
  } catch (const Error& error) {
    const std::vector<DirectoryEntry> entries = own_->list();
    const bool has_marker = entries.size() == 1 && entries.front().name == marker;
    if (error.code() == ErrorCode::kOpenFailed && own_->has(marker)) return false;
    // Other ranks that have seen it and written more keep it.
    if (has_marker) own_->remove_file(marker);
    if (has_marker || entries.empty()) parent_->remove_directory(name_);
    throw;
  }
}

void PendingCheckpoint::refuse_existing(const Directory& existing) const {
  if (options_.existing == CheckpointOptions::Existing::kRefuse) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("{}: it exists already", existing.name()));
  }
  require_replaceable(existing);
  throw Error(ErrorCode::kUnavailable,
              fmt::format("{}: existing checkpoint kept: without renaming directories (commit by marker) none can be "
                          "replaced: save under another name, or delete it first",
                          existing.name()));
}

// Until it is locked, a cleaning process may take the new directory for a stale one, lock it, and remove it.
void PendingCheckpoint::lock_temporary() {
  bool is_ours = false;
  for (int tries = 0; !own_; ++tries) {
    if (tries == kLockTriesMax) {
      throw Error(ErrorCode::kFileLocked, fmt::format("{}: it is in use", parent_->path(temporary_)));
    }
    if (tries > 0) std::this_thread::sleep_for(kLockPause);
    is_ours = parent_->make_directory(temporary_, kClosedMode) || is_ours;
    if (!is_ours && writer_ == Writer::kAlone) {
      throw Error(ErrorCode::kOpenFailed, fmt::format("{}: it exists already", parent_->path(temporary_)));
    }
    try {
      own_ = parent_->lock_directory(temporary_, Lock::kShared);
    } catch (...) {
      // If another rank has written into it, it is not empty and stays.
      try {
        if (is_ours) parent_->remove_directory(temporary_);
      } catch (const Error&) {
      }
      throw;
    }
  }
}

void PendingCheckpoint::abandon() noexcept {
  try {
    if (!own_rank_.empty()) remove_rank(*own_, std::exchange(own_rank_, {}));
    if (!renames() && own_->list().size() == 1) own_->remove_file(std::string(kUnfinishedName));
    parent_->remove_directory(temporary_);
  } catch (...) {
    // Other ranks have not removed theirs yet, or the disk refuses.
  }
}

PendingCheckpoint::~PendingCheckpoint() {
  if (stays_ || writer_ == Writer::kOtherRank) return;
  // If another checkpoint has the name by now, both can be loaded.
  if (!aside_.empty()) static_cast<void>(parent_->try_rename_no_replace(aside_, name_));
  try {
    // A rename that reported a failure may have been made.
    if (parent_->is_name_of(temporary_, own_->get())) remove_temporary();
  } catch (...) {
    // clean_stale_checkpoints removes the rest.
  }
}

void PendingCheckpoint::remove_temporary() {
  if (!renames()) return remove_in_place(*parent_, *own_, name_);
  remove_content(*own_);
  parent_->remove_directory(temporary_);
}

// Replacing a directory deletes all its content.
void PendingCheckpoint::require_replaceable(const Directory& existing) const {
  const bool is_ours = has_valid_commit(existing) || marker_of(existing, name_) == Marker::kUnfinished;
  if (is_ours || existing.list().empty()) return;
  throw Error(
      ErrorCode::kOpenFailed,
      fmt::format("{}: not replaced: it is not a checkpoint, or a damaged one (there is no valid {}): save under "
                  "another name, or delete it first",
                  existing.name(), kCommitName));
}

// Returns whether retention would not delete the checkpoint that is to be replaced, whatever its age.
bool PendingCheckpoint::is_kept() const {
  const Retention& retention = options_.retention;
  if (!has_valid_commit(*old_)) return false;
  if (std::ranges::find(retention.protect, name_) != retention.protect.end()) return true;
  if (!retention.keep) return false;
  CheckpointInfo info;
  TrainingState state;
  try {
    const StoredCheckpoint stored(old_->again(), {});
    info = info_of(stored.directory(), *stored.commit());
    state = stored.state(stored.prefix(0));
  } catch (const Error&) {
    // As in retention, it is kept if its state cannot be read.
    return true;
  }
  return retention.keep(info, state);
}

// Leaves the checkpoint that is to be replaced under a name that no save uses, so that it can be loaded at any moment.
void PendingCheckpoint::set_aside() {
  const std::string aside = fmt::format("{}.replaced-{}", name_, new_save_id());
  if (!parent_->try_rename_no_replace(name_, aside)) {
    if (errno == ENOENT) return;
    const ErrorCode code = is_rename_refused(errno) ? ErrorCode::kUnavailable : ErrorCode::kWriteFailed;
    throw_errno(code, fmt::format("{}: existing checkpoint kept: cannot rename it", parent_->path(name_)));
  }
  // Another process may have replaced it since it was opened.
  if (parent_->is_name_of(aside, old_->get())) {
    aside_ = aside;
    if (keeps_aside_) {
      warnings_.push_back(fmt::format("{}: replaced, but protected or kept, so the old one is now {}",
                                      parent_->path(name_), parent_->path(aside)));
    }
  } else if (!parent_->try_rename_no_replace(aside, name_)) {
    warnings_.push_back(fmt::format("{}: what another process saved there meanwhile is now {}", parent_->path(name_),
                                    parent_->path(aside)));
  }
  sync(*parent_);
}

std::vector<FileRecord> PendingCheckpoint::write(const Content& content) { return write_content(*own_, "", content); }

void PendingCheckpoint::write_rank(std::uint32_t rank, std::uint32_t world_size, const Content& content,
                                   const Sharding& sharding) {
  const std::string name = rank_directory(rank), prefix = name + "/";
  if (!own_->make_directory(name)) {
    throw Error(ErrorCode::kUsage, fmt::format("{}: save id {} has been used before", own_->path(name), save_id_));
  }
  own_rank_ = name;
  const Directory directory = own_->open_directory(name);
  RankManifest manifest{save_id_, content.state->step, rank, world_size, sharding, {}};
  manifest.files = write_content(directory, prefix, content);
  // In the other strategies every rank has every name, and lists would only fill the records.
  if (sharding.strategy == Sharding::Strategy::kZeroPartitioned && manifest.sharding.owned_params.empty()) {
    for (std::size_t i = 0; i < content.model->size(); ++i) {
      manifest.sharding.owned_params.push_back(plain_name((*content.model)[i]));
    }
  }
  write_record(directory, prefix, kManifestName, serialize_manifest(manifest));
  sync(directory);
}

std::vector<FileRecord> PendingCheckpoint::write_content(const Directory& directory, const std::string& prefix,
                                                         const Content& content) {
  std::vector<FileRecord> written;
  written.push_back(write_tensors_file(directory, prefix, kModel, *content.model, *content.model_source));
  if (content.optimizer != nullptr && content.optimizer->size() > 0) {
    written.push_back(write_tensors_file(directory, prefix, kOptimizer, *content.optimizer, *content.optimizer_source));
  }
  written.push_back(write_record(directory, prefix, kStateName, serialize_state(*content.state)));
  return written;
}

FileRecord PendingCheckpoint::write_tensors_file(const Directory& directory, const std::string& prefix,
                                                 std::string_view stem, const TensorTable& tensors,
                                                 const TensorSource& source) {
  const bool safetensors = options_.format == CheckpointOptions::Format::kSafetensors;
  const std::string name = fmt::format("{}.{}", stem, safetensors ? "safetensors" : "tensors");
  const auto file = directory.create_file(name, options_.io_path);
  return with_context(directory.path(name), [&] {
    file->expect_sync();
    DigestFile digesting(*file);
    const std::uint64_t file_bytes = write_format(digesting, tensors, source, options_);
    file->sync();
    const FileDigest digest = digesting.digest();
    if (digest.bytes != file_bytes) throw Error(ErrorCode::kWriteFailed, "not all of it was written", digest.bytes);
    written_bytes_ += digest.bytes;
    return FileRecord{prefix + name, digest};
  });
}

FileRecord PendingCheckpoint::write_record(const Directory& directory, const std::string& prefix,
                                           std::string_view record_name, const std::string& text) {
  const std::string name(record_name);
  with_context(directory.path(name), [&] { check_record(text); });
  write_small_file(directory, name, text);
  written_bytes_ += text.size();
  return {prefix + name, {text.size(), crc64(0, as_bytes(text))}};
}

std::vector<FileRecord> PendingCheckpoint::gather(std::uint32_t world_size, std::uint64_t step) {
  ShardingMeta meta;
  std::vector<FileRecord> written;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    const std::string directory = rank_directory(rank);
    const std::string name = fmt::format("{}/{}", directory, kManifestName);
    std::optional<Directory> shard;
    if (own_->kind(directory) == EntryKind::kDirectory) shard = own_->open_directory(directory);
    if (!shard || shard->kind(std::string(kManifestName)) != EntryKind::kFile) {
      throw Error(ErrorCode::kCheckpointPeer, fmt::format("{}: rank {} has not written it", own_->path(name), rank));
    }
    const std::string text = read_small_file(*shard, std::string(kManifestName), kRecordBytesMax);
    RankManifest manifest = with_context(own_->path(name), [&] { return parse_manifest(text); });
    if (manifest.save_id != save_id_ || manifest.step != step || manifest.rank != rank ||
        manifest.world_size != world_size) {
      throw Error(
          ErrorCode::kCheckpointPeer,
          fmt::format("{}: it is of rank {} of {} in save {} of step {}, and not of rank {} of {} in save {} of "
                      "step {}",
                      own_->path(name), manifest.rank, manifest.world_size, manifest.save_id, manifest.step, rank,
                      world_size, save_id_, step));
    }
    meta.shards.push_back(std::move(manifest.sharding));
    for (FileRecord& file : manifest.files) written.push_back(std::move(file));
    written.push_back({name, {text.size(), crc64(0, as_bytes(text))}});
  }
  written.push_back(write_record(*own_, "", kShardingName, serialize_sharding(meta)));
  return written;
}

void PendingCheckpoint::commit(std::uint64_t step, std::uint32_t world_size, std::vector<FileRecord> written,
                               Latest latest, Line& line) {
  // Created in the checkpoint, `latest` is synced with the other files, and removed with them if the save fails.
  if (latest == Latest::kMoves) write_small_file(*own_, std::string(kLatestName), name_ + "\n");
  const CommitRecord record{save_id_, step, world_size, unix_now_ns(), std::move(written), line.next(*parent_, name_),
                            method_};
  // Without a rename, commit.json makes all others valid.
  if (!renames()) {
    open_to_others();
    sync(*own_);
  }
  write_record(*own_, "", kCommitName, serialize_commit(record));
  if (renames()) open_to_others();
  sync(*own_);
  bool replaces = false;
  try {
    replaces = renames() && take_name();
    if (!renames()) keep_name();
    line.committed(record);
    if (latest == Latest::kMoves) {
      move_latest(line);
      sync(*parent_);
    }
  } catch (...) {
    discard_latest();
    throw;
  }
  if (replaces) remove_replaced();
}

// For a save that fails when its checkpoint may have its name already: `latest` is no part of it.
void PendingCheckpoint::discard_latest() {
  try {
    own_->remove_file(std::string(kLatestName));
  } catch (const Error&) {
    // Readers ignore it.
  }
}

// Gives the checkpoint the permissions that any new directory gets here, by umask and ACL.
void PendingCheckpoint::open_to_others() {
  const std::string shown_by = rank_directory(0);
  const bool is_made = own_->make_directory(shown_by);
  if (!own_->give_mode_of(shown_by)) {
    warnings_.push_back(
        fmt::format("{}: its owner alone can read it: its permissions cannot be changed", parent_->path(name_)));
  }
  if (is_made) own_->remove_directory(shown_by);
}

// Makes the name durable, which the directory had from the start.
void PendingCheckpoint::keep_name() {
  stays_ = true;
  sync(*parent_);
  try {
    own_->remove_file(std::string(kUnfinishedName));
  } catch (const Error& error) {
    warnings_.push_back(fmt::format("{}: complete, but its marker stays until the next start: {}", parent_->path(name_),
                                    error.message()));
  }
}

// Lets `latest` name the newest checkpoint, which is another one if a process has committed since this save took its
// number. The process that is the last one to move `latest` sees all commits.
void PendingCheckpoint::move_latest(Line& line) {
  for (std::string named = name_; put_latest(named);) {
    std::string newest;
    try {
      newest = line.newest(*parent_);
    } catch (const Error& error) {
      warnings_.push_back(fmt::format("{}: it may not be the newest checkpoint, as {} says: {}", parent_->path(named),
                                      kLatestName, error.message()));
    }
    if (newest.empty() || newest == named) return;
    named = std::move(newest);
  }
}

// Returns false if there is no more to do.
bool PendingCheckpoint::put_latest(const std::string& named) {
  const std::string latest(kLatestName);
  if (parent_->kind(latest) == EntryKind::kDirectory) {
    own_->remove_file(latest);
    warnings_.push_back(
        fmt::format("{}: it is a directory, so no file of this name tells the newest checkpoint: "
                    "rename or delete it",
                    parent_->path(latest)));
    return false;
  }
  try {
    // The first time, commit has written it.
    if (named != name_) write_small_file(*own_, latest, named + "\n");
    if (own_->try_rename(latest, *parent_, latest)) return true;
    if (renames() || !is_rename_refused(errno)) {
      throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it", own_->path(latest)));
    }
  } catch (const Error&) {
    // A process that has replaced or deleted this checkpoint since has moved `latest`, or will.
    if (!parent_->is_name_of(name_, own_->get())) return false;
    throw;
  }
  // Where files cannot be renamed either, a reader may find none for a moment.
  parent_->remove_file(latest);
  write_small_file(*parent_, latest, named + "\n");
  own_->remove_file(latest);
  return true;
}

WriteReport PendingCheckpoint::report() const {
  WriteReport report;
  report.file_bytes = written_bytes_;
  report.names_durable = names_durable_;
  report.commit = method_;
  if (!names_durable_ && writer_ != Writer::kOtherRank) {
    report.warnings.push_back(fmt::format("{}: complete, but {}", parent_->path(name_), why_name_is_not_durable()));
  }
  report.warnings.insert(report.warnings.end(), warnings_.begin(), warnings_.end());
  return report;
}

// The new checkpoint is durable, so a failure is a warning. The next start removes what stays.
void PendingCheckpoint::remove_replaced() {
  const std::string name = aside_.empty() ? temporary_ : aside_;
  try {
    if (const auto foreign = foreign_entry(*old_)) {
      warnings_.push_back(
          fmt::format("{}: the replaced checkpoint is not deleted: it contains '{}', which no save writes",
                      parent_->path(name), *foreign));
    } else {
      if (!aside_.empty()) {
        parent_->rename_no_replace(aside_, temporary_);
        sync(*parent_);
        static_cast<void>(old_->close_to_others());
      }
      remove_content(*old_);
      // Another process may have exchanged the names at the same time: then this one has its checkpoint, not the old.
      if (parent_->is_name_of(temporary_, old_->get())) parent_->remove_directory(temporary_);
    }
  } catch (const Error& error) {
    warnings_.push_back(
        fmt::format("{}: the replaced checkpoint is not deleted: {}", parent_->path(name), error.message()));
  }
  old_.reset();
}

// Verifies from the device before an old checkpoint is replaced.
void PendingCheckpoint::require_good_copy() {
  CheckpointReadOptions options;
  options.from_device = true;
  options.threads = options_.threads;
  try {
    verify(StoredCheckpoint(own_->again(), options));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: existing checkpoint kept: the replacement failed verification: {}",
                                          parent_->path(name_), error.message()));
  }
}

// Returns whether a replaced checkpoint is to be removed.
bool PendingCheckpoint::take_name() {
  for (int tries = 0; tries < kLockTriesMax; ++tries) {
    if (tries > 0) std::this_thread::sleep_for(kLockPause);
    const std::optional<bool> replaces = try_take_name();
    if (!replaces) continue;
    // Until the parent is synced, a loss of power may undo the exchange: both checkpoints have to stay.
    stays_ = true;
    sync(*parent_);
    // If that is refused, others may keep it from being cleaned up later.
    if (*replaces && aside_.empty()) static_cast<void>(old_->close_to_others());
    return *replaces;
  }
  throw Error(ErrorCode::kFileLocked,
              fmt::format("{}: other processes are deleting or replacing it", parent_->path(name_)));
}

// Returns nothing if another process has changed what the name belongs to.
std::optional<bool> PendingCheckpoint::try_take_name() {
  if (!parent_->has(name_)) {
    if (parent_->try_rename_no_replace(temporary_, name_)) return !aside_.empty() && !keeps_aside_;
    if (errno == EEXIST || errno == ENOTEMPTY) return std::nullopt;
    throw_errno(ErrorCode::kWriteFailed,
                fmt::format("{}: cannot rename it to {}", parent_->path(temporary_), parent_->path(name_)));
  }
  if (options_.existing == CheckpointOptions::Existing::kRefuse) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("{}: another process has created it", parent_->path(name_)));
  }
  if (!aside_.empty() && !keeps_aside_) {
    // Another process has taken the name meanwhile.
    warnings_.push_back(
        fmt::format("{}: the replaced checkpoint is kept as {}", parent_->path(name_), parent_->path(aside_)));
  }
  aside_.clear();
  if (!is_verified_) require_good_copy();
  is_verified_ = true;
  // Unlocked, it would look stale under its temporary name.
  old_ = parent_->lock_or_open_directory(name_);
  if (!old_) return std::nullopt;
  try {
    require_replaceable(*old_);
    keeps_aside_ = is_kept();
  } catch (const Error&) {
    if (parent_->is_name_of(name_, old_->get())) throw;
    return std::nullopt;
  }
  if (!keeps_aside_ && parent_->try_exchange(temporary_, name_)) return true;
  if (!keeps_aside_ && errno == ENOENT && !parent_->has(name_)) return std::nullopt;
  if (!keeps_aside_ && !is_rename_refused(errno)) {
    throw_errno(ErrorCode::kWriteFailed,
                fmt::format("{}: cannot exchange names with {}", parent_->path(temporary_), parent_->path(name_)));
  }
  set_aside();
  return std::nullopt;
}

}  // namespace tzmark::checkpoint
