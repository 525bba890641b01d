// The checkpoints of a directory: which there are, which one is the newest, and whether one is whole.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/load.h"
#include "checkpoint/names.h"
#include "checkpoint/removal.h"
#include "io/paths.h"

namespace tzmark {
namespace {

using checkpoint::StoredCheckpoint;

CheckpointInfo info_of(const std::string& directory, const checkpoint::CommitRecord& commit) {
  CheckpointInfo info;
  info.directory = directory;
  info.status = CheckpointInfo::Status::kCommitted;
  info.save_id = commit.save_id;
  info.step = commit.step;
  info.world_size = commit.world_size;
  info.committed_unix_ns = commit.committed_unix_ns;
  info.file_count = commit.files.size();
  for (const checkpoint::FileRecord& file : commit.files) info.file_bytes += file.digest.bytes;
  return info;
}

// What a directory is, if it has to do with checkpoints at all.
std::optional<CheckpointInfo> look_at(OpenDirectory& parent, const std::string& name) {
  CheckpointInfo info;
  info.directory = parent.name() + "/" + name;
  if (checkpoint::is_temporary_name(name)) {
    info.status = CheckpointInfo::Status::kTemporary;
    info.problem =
        checkpoint::is_marked_name(name) ? "unfinished save or deletion" : "temporary name without the mark of a save";
    return info;
  }
  const auto directory = parent.open_directory(name);
  const auto has = [&](std::string_view entry) { return directory->kind(std::string(entry)) == EntryKind::kFile; };
  if (has(checkpoint::kCommitName)) {
    try {
      return info_of(info.directory,
                     checkpoint::parse_commit(read_small_file(*directory, std::string(checkpoint::kCommitName),
                                                              checkpoint::kRecordBytesMax)));
    } catch (const Error& error) {
      // A disk that cannot be read says nothing about the checkpoint, and one that is too large is none of ours.
      if (error.error_class() != ErrorClass::kFile && error.code() != ErrorCode::kResource) throw;
      info.problem = fmt::format("{}: {}", checkpoint::kCommitName, error.message());
      return info;
    }
  }
  if (!has(checkpoint::kStateName) && !has(checkpoint::kShardingName)) return std::nullopt;
  info.problem = fmt::format("there is no {}", checkpoint::kCommitName);
  return info;
}

// What cannot be read must not hide the others. files: throws if the error is not that directory's own, such as too
// many open files.
std::optional<CheckpointInfo> look_at_or_say_why(FileSystem& files, OpenDirectory& parent, const std::string& name) {
  try {
    return look_at(parent, name);
  } catch (const Error& error) {
    // What a retention has removed since is none of them.
    if (parent.kind(name) == EntryKind::kNone) return std::nullopt;
    static_cast<void>(files.open_directory(parent.name()));
    CheckpointInfo info;
    info.directory = parent.name() + "/" + name;
    info.status = CheckpointInfo::Status::kUnreadable;
    info.problem = error.message();
    return info;
  }
}

std::shared_ptr<FileSystem> files_of(const std::shared_ptr<FileSystem>& chosen) {
  return chosen ? chosen : system_file_system();
}

}  // namespace

std::vector<CheckpointInfo> list_checkpoints(const std::string& parent, const CheckpointReadOptions& options) {
  const auto files = files_of(options.file_system);
  const auto directory = files->open_directory(parent);
  std::vector<CheckpointInfo> found;
  for (const DirectoryEntry& entry : directory->list()) {
    if (entry.kind != EntryKind::kDirectory) continue;
    if (auto info = look_at_or_say_why(*files, *directory, entry.name)) found.push_back(std::move(*info));
  }
  std::ranges::stable_sort(found, {}, [](const CheckpointInfo& info) {
    return std::tuple(info.status == CheckpointInfo::Status::kCommitted, info.step, info.committed_unix_ns);
  });
  return found;
}

std::optional<CheckpointInfo> find_newest_checkpoint(const std::string& parent, const CheckpointReadOptions& options) {
  auto found = list_checkpoints(parent, options);
  if (found.empty() || found.back().status != CheckpointInfo::Status::kCommitted) return std::nullopt;
  return std::move(found.back());
}

std::optional<std::string> read_latest_checkpoint(const std::string& parent, const CheckpointReadOptions& options) {
  // As long as any file's name may be, and the end of the line.
  constexpr std::uint64_t kLatestBytesMax = 256;
  const auto files = files_of(options.file_system);
  const std::string latest = fmt::format("{}/{}", parent, checkpoint::kLatestName);
  const auto within = files->open_directory(parent);
  if (within->kind(std::string(checkpoint::kLatestName)) == EntryKind::kNone) return std::nullopt;
  std::string name = read_small_file(*within, std::string(checkpoint::kLatestName), kLatestBytesMax);
  if (name.ends_with('\n')) name.pop_back();
  const std::string directory = fmt::format("{}/{}", parent, name);
  try {
    if (checkpoint::place_of(directory).name == name) return directory;
  } catch (const Error&) {
    // No checkpoint may be called so.
  }
  throw Error(ErrorCode::kCheckpointUncommitted, fmt::format("{}: it names no checkpoint beside it", latest));
}

CheckpointInfo verify_checkpoint(const std::string& directory, const CheckpointReadOptions& options) {
  const StoredCheckpoint stored(directory, options);
  if (!stored.commit()) {
    throw Error(ErrorCode::kCheckpointUncommitted,
                fmt::format("{}: without {} there is nothing to check it against", directory, checkpoint::kCommitName));
  }
  for (const checkpoint::FileRecord& file : stored.commit()->files) {
    stored.read(file.name, *stored.open(file.name), {});
  }
  for (std::uint32_t rank = 0; rank < std::max(1U, stored.world_size()); ++rank) {
    const std::string prefix = stored.prefix(rank);
    static_cast<void>(stored.state(prefix));
    const auto model = stored.tensors_name(prefix, checkpoint::kModel);
    if (!model) {
      throw Error(ErrorCode::kCheckpointDamaged, fmt::format("{}: there is no file of the model", stored.path(prefix)));
    }
    for (const auto& name : {model, stored.tensors_name(prefix, checkpoint::kOptimizer)}) {
      if (name) about(stored.path(*name), [&] { checkpoint::TensorFile(*name, stored.open(*name)); });
    }
  }
  return info_of(directory, *stored.commit());
}

CleanedCheckpoints clean_stale_checkpoints(const std::string& parent, const std::shared_ptr<FileSystem>& file_system) {
  const auto files = files_of(file_system);
  CleanedCheckpoints cleaned;
  for (const DirectoryEntry& entry : files->open_directory(parent)->list()) {
    if (entry.kind != EntryKind::kDirectory || !checkpoint::is_temporary_name(entry.name)) continue;
    const std::string name = parent + "/" + entry.name;
    if (!checkpoint::is_marked_name(entry.name)) {
      cleaned.kept.push_back(fmt::format("{}: not deleted: its name lacks the mark of a save", name));
      continue;
    }
    const auto locked = files->lock_alone(name);
    if (!locked) continue;
    if (const auto foreign = checkpoint::foreign_entry(*locked)) {
      cleaned.kept.push_back(fmt::format("{}: not deleted: it contains '{}', which no save writes", name, *foreign));
      continue;
    }
    // It may be an old checkpoint whose successor's name is not durable yet. Only what was locked before the sync is
    // known to have its temporary name durable after it.
    files->sync_directory(parent);
    checkpoint::remove_content(*locked);
    files->remove_directory(name);
    cleaned.removed.push_back(name);
  }
  return cleaned;
}

}  // namespace tzmark
