// Finding, verifying and cleaning up the checkpoints of a directory.
#include "checkpoint/catalog.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/line.h"
#include "checkpoint/names.h"
#include "checkpoint/removal.h"
#include "checkpoint/unfinished.h"
#include "io/paths.h"

namespace tzmark {
namespace {

using checkpoint::StoredCheckpoint;

// Describes a directory that looks like a checkpoint; returns nothing for others.
std::optional<CheckpointInfo> look_at(const Directory& parent, const std::string& name) {
  CheckpointInfo info;
  info.directory = parent.path(name);
  if (checkpoint::is_temporary_name(name)) {
    info.status = CheckpointInfo::Status::kTemporary;
    info.problem =
        checkpoint::is_marked_name(name) ? "unfinished save or deletion" : "temporary name without the mark of a save";
    return info;
  }
  const Directory directory = parent.open_directory(name);
  if (checkpoint::marker_of(directory, name) == checkpoint::Marker::kUnfinished) {
    info.status = CheckpointInfo::Status::kTemporary;
    info.problem = "unfinished save or deletion, without a rename";
    return info;
  }
  const auto has = [&](std::string_view entry) { return directory.kind(std::string(entry)) == EntryKind::kFile; };
  if (has(checkpoint::kCommitName)) {
    try {
      return checkpoint::info_of(
          info.directory, checkpoint::parse_commit(read_small_file(directory, std::string(checkpoint::kCommitName),
                                                                   checkpoint::kRecordBytesMax)));
    } catch (const Error& error) {
      // A read error says nothing about the checkpoint; a record that is too large was not written by a save.
      if (error.error_class() != ErrorClass::kFile && error.code() != ErrorCode::kResource) throw;
      info.problem = fmt::format("{}: {}", checkpoint::kCommitName, error.message());
      // Other programs may have a file of this name.
      info.is_damaged = has(checkpoint::kStateName) || has(checkpoint::kShardingName);
      return info;
    }
  }
  if (!has(checkpoint::kStateName) && !has(checkpoint::kShardingName)) return std::nullopt;
  info.problem = fmt::format("there is no {}", checkpoint::kCommitName);
  return info;
}

// Newer ones come last. Without a sequence number, the step tells more than the clock: machines disagree on the time. A
// copy is older than its original.
auto order_of(const CheckpointInfo& info) {
  return std::tuple(info.status == CheckpointInfo::Status::kCommitted, info.origin.sequence,
                    info.origin.sequence == 0 ? info.step : 0, info.committed_unix_ns, info.is_original);
}

// An unreadable checkpoint must not hide the others. Throws if the error is not its own, such as too many open files.
std::optional<CheckpointInfo> look_at_or_say_why(const Directory& parent, const std::string& name) {
  try {
    return look_at(parent, name);
  } catch (const Error& error) {
    // Retention may have removed it since.
    if (!parent.has(name)) return std::nullopt;
    static_cast<void>(parent.again());
    CheckpointInfo info;
    info.directory = parent.path(name);
    info.status = CheckpointInfo::Status::kUnreadable;
    info.is_unread = error.code() == ErrorCode::kReadFailed;
    info.problem = error.message();
    return info;
  }
}

}  // namespace

namespace checkpoint {

CheckpointInfo info_of(const std::string& directory, const CommitRecord& commit) {
  CheckpointInfo info;
  info.directory = directory;
  info.status = CheckpointInfo::Status::kCommitted;
  info.save_id = commit.save_id;
  info.step = commit.step;
  info.world_size = commit.world_size;
  info.committed_unix_ns = commit.committed_unix_ns;
  info.file_count = commit.files.size();
  for (const FileRecord& file : commit.files) info.file_bytes += file.digest.bytes;
  info.origin = commit.origin;
  info.commit = commit.method;
  info.is_original = commit.origin.sequence != 0 && commit.origin.name == name_in_directory(directory);
  return info;
}

std::vector<CheckpointInfo> list(const Directory& parent) {
  std::vector<CheckpointInfo> found;
  for (const DirectoryEntry& entry : parent.list()) {
    if (entry.kind != EntryKind::kDirectory) continue;
    if (auto info = look_at_or_say_why(parent, entry.name)) found.push_back(std::move(*info));
  }
  std::ranges::stable_sort(found, {}, order_of);
  if (found.empty()) return found;
  const CheckpointOrigin newest = found.back().origin;
  for (CheckpointInfo& info : found) info.is_on_line = is_on_line(newest, info.origin);
  return found;
}

CheckpointInfo verify(const StoredCheckpoint& stored) {
  if (!stored.commit()) {
    throw Error(ErrorCode::kCheckpointUncommitted,
                fmt::format("{}: cannot be verified without {}", stored.directory(), kCommitName));
  }
  for (const FileRecord& file : stored.commit()->files) {
    stored.read(file.name, *stored.open(file.name), {});
  }
  for (std::uint32_t rank = 0; rank < std::max(1U, stored.world_size()); ++rank) {
    const std::string prefix = stored.prefix(rank);
    static_cast<void>(stored.state(prefix));
    const auto model = stored.tensors_name(prefix, kModel);
    if (!model) {
      throw Error(ErrorCode::kCheckpointDamaged, fmt::format("{}: there is no file of the model", stored.path(prefix)));
    }
    for (const auto& name : {model, stored.tensors_name(prefix, kOptimizer)}) {
      if (name) with_context(stored.path(*name), [&] { TensorFile(*name, stored.open(*name)); });
    }
  }
  return info_of(stored.directory(), *stored.commit());
}

namespace {

// Removes a directory with a marked temporary name.
Removal clean_temporary(const Directory& parent, const std::string& name) {
  const auto locked = parent.lock_directory(name, Lock::kAlone);
  if (!locked) return Removal::kLocked;
  // It may be an old checkpoint whose successor's name is not durable yet. A sync makes durable the temporary names of
  // those directories only that were locked before it. Where directories cannot be synced, the save has said so.
  static_cast<void>(parent.sync());
  remove_content(*locked);
  parent.remove_directory(name);
  return Removal::kDone;
}

}  // namespace

}  // namespace checkpoint

std::vector<CheckpointInfo> list_checkpoints(const std::string& parent) { return checkpoint::list(Directory(parent)); }

std::optional<CheckpointInfo> find_newest_checkpoint(const std::string& parent) {
  CheckpointCandidates candidates = list_checkpoint_candidates(parent);
  if (!candidates.damage.empty()) throw Error(candidates.damage_code, candidates.damage);
  if (candidates.checkpoints.empty()) return std::nullopt;
  return std::move(candidates.checkpoints.front());
}

CheckpointCandidates list_checkpoint_candidates(const std::string& parent) {
  CheckpointCandidates candidates;
  std::optional<std::string> latest;
  try {
    if (const auto directory = read_latest_checkpoint(parent)) latest = name_in_directory(*directory);
  } catch (const Error&) {
    // It is for people, and need not be a file of ours.
  }
  for (CheckpointInfo& info : list_checkpoints(parent)) {
    if (info.is_damaged ||
        (info.status == CheckpointInfo::Status::kUncommitted && latest == name_in_directory(info.directory))) {
      candidates.damage = fmt::format(
          "{}: it may be the newest checkpoint, and is damaged: {}: take an intact one (--intact, "
          "intact=True), and delete it if you do not need it",
          info.directory, info.problem);
      candidates.damage_code = ErrorCode::kCheckpointDamaged;
    }
    // Training would continue from an older one, because a device failed once.
    if (info.is_unread) {
      candidates.damage = fmt::format(
          "{}: it may be the newest checkpoint, and reading it failed: {}: try again, or pass over it "
          "(--intact, intact=True)",
          info.directory, info.problem);
      candidates.damage_code = ErrorCode::kReadFailed;
    }
    if (info.status == CheckpointInfo::Status::kCommitted) {
      candidates.checkpoints.push_back(std::move(info));
    } else if (info.status != CheckpointInfo::Status::kTemporary) {
      candidates.passed_over.push_back(fmt::format("passed over {}: {}", info.directory, info.problem));
    }
  }
  std::ranges::reverse(candidates.checkpoints);
  std::ranges::stable_partition(candidates.checkpoints, [](const CheckpointInfo& info) { return info.is_on_line; });
  return candidates;
}

namespace {

// Returns whether a checkpoint was deleted or replaced since it was listed.
bool is_gone(const Directory& parent, const CheckpointInfo& info) {
  const auto now = look_at_or_say_why(parent, name_in_directory(info.directory));
  return !now || now->status == CheckpointInfo::Status::kTemporary ||
         (now->status == CheckpointInfo::Status::kCommitted && now->save_id != info.save_id);
}

// Returns nothing if the list of candidates is out of date.
std::optional<IntactCheckpoint> try_find_intact(const std::string& parent, const CheckpointReadOptions& options) {
  CheckpointCandidates candidates = list_checkpoint_candidates(parent);
  IntactCheckpoint result{std::nullopt, std::move(candidates.passed_over)};
  const Directory within(parent);
  for (const CheckpointInfo& info : candidates.checkpoints) {
    try {
      if (verify_checkpoint(info.directory, options).save_id != info.save_id) return std::nullopt;
      result.found = info;
      return result;
    } catch (const Error& error) {
      const bool is_own = error.error_class() == ErrorClass::kFile || error.code() == ErrorCode::kOpenFailed ||
                          error.code() == ErrorCode::kReadFailed;
      if (!is_own) throw;
      // Throws for an error that is not the checkpoint's own, such as too many open files.
      static_cast<void>(within.again());
      if (is_gone(within, info)) return std::nullopt;
      result.passed_over.push_back(fmt::format("passed over {}: {}", info.directory, error.message()));
    }
  }
  if (!candidates.checkpoints.empty()) {
    // A message has room for one reason: that of the newest.
    throw Error(ErrorCode::kCheckpointDamaged,
                fmt::format("{}: none of {} checkpoints is intact; {}", parent, candidates.checkpoints.size(),
                            result.passed_over[result.passed_over.size() - candidates.checkpoints.size()]));
  }
  return result;
}

}  // namespace

IntactCheckpoint find_intact_checkpoint(const std::string& parent, const CheckpointReadOptions& options) {
  for (int tries = 0; tries < checkpoint::kReadTriesMax; ++tries) {
    if (auto found = try_find_intact(parent, options)) return std::move(*found);
  }
  throw Error(ErrorCode::kOpenFailed,
              fmt::format("{}: other processes delete or replace its checkpoints faster than one can be read", parent));
}

std::optional<std::string> read_latest_checkpoint(const std::string& parent) {
  // The longest file name and a line break.
  constexpr std::uint64_t kLatestBytesMax = 256;
  const Directory within(parent);
  const std::string latest(checkpoint::kLatestName);
  if (!within.has(latest)) return std::nullopt;
  std::string name = read_small_file(within, latest, kLatestBytesMax);
  // Where files cannot be renamed, it is written in place, and a save can die in between.
  if (name.empty()) return std::nullopt;
  if (name.ends_with('\n')) name.pop_back();
  const std::string directory = fmt::format("{}/{}", parent, name);
  try {
    if (checkpoint::place_of(directory).name == name) return directory;
  } catch (const Error&) {
    // No checkpoint may have this name.
  }
  throw Error(ErrorCode::kCheckpointUncommitted,
              fmt::format("{}: does not name a checkpoint in its directory", within.path(latest)));
}

CheckpointInfo verify_checkpoint(const std::string& directory, const CheckpointReadOptions& options) {
  return checkpoint::with_stored(directory, options,
                                 [](const StoredCheckpoint& stored) { return checkpoint::verify(stored); });
}

CleanedCheckpoints clean_stale_checkpoints(const std::string& parent) {
  const Directory within(parent);
  CleanedCheckpoints cleaned;
  for (const DirectoryEntry& entry : within.list()) {
    if (entry.kind != EntryKind::kDirectory) continue;
    const std::string name = within.path(entry.name);
    if (checkpoint::is_temporary_name(entry.name) && !checkpoint::is_marked_name(entry.name)) {
      cleaned.kept.push_back(fmt::format("{}: not deleted: its name lacks the mark of a save", name));
      continue;
    }
    try {
      const checkpoint::Removal removal = checkpoint::is_temporary_name(entry.name)
                                              ? checkpoint::clean_temporary(within, entry.name)
                                              : checkpoint::clean_unfinished(within, entry.name);
      if (removal == checkpoint::Removal::kDone) cleaned.removed.push_back(name);
      // Saves and deletions in progress have closed theirs, where directories have permissions.
      if (removal == checkpoint::Removal::kLocked && within.is_open_to_others(entry.name)) {
        cleaned.kept.push_back(fmt::format("{}: not deleted: another process has locked it", name));
      }
    } catch (const Error& error) {
      // One that cannot be removed must not keep a program from starting.
      cleaned.kept.push_back(error.message());
    }
  }
  return cleaned;
}

}  // namespace tzmark
