// The checkpoints of a directory: which there are, which one is the newest, and whether one is whole.
#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/load.h"
#include "checkpoint/names.h"
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
std::optional<CheckpointInfo> look_at(FileSystem& files, const std::string& parent, const std::string& name) {
  CheckpointInfo info;
  info.directory = parent + "/" + name;
  if (checkpoint::is_temporary_name(name)) {
    info.status = CheckpointInfo::Status::kTemporary;
    info.problem = "it has a temporary name";
    return info;
  }
  const auto has = [&](std::string_view entry) {
    return files.kind(fmt::format("{}/{}", info.directory, entry)) == EntryKind::kFile;
  };
  if (has(checkpoint::kCommitName)) {
    const std::string commit = fmt::format("{}/{}", info.directory, checkpoint::kCommitName);
    try {
      return info_of(info.directory,
                     checkpoint::parse_commit(read_small_file(files, commit, checkpoint::kRecordBytesMax)));
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

// Whether a directory of a temporary name holds only what saves make. Other programs may use such names too.
bool is_all_ours(FileSystem& files, const std::string& directory, bool in_rank = false) {
  return std::ranges::all_of(files.list(directory), [&](const DirectoryEntry& entry) {
    if (entry.kind == EntryKind::kFile) return checkpoint::is_own_file_name(entry.name);
    return entry.kind == EntryKind::kDirectory && !in_rank && checkpoint::is_rank_directory_name(entry.name) &&
           is_all_ours(files, directory + "/" + entry.name, true);
  });
}

std::shared_ptr<FileSystem> files_of(const std::shared_ptr<FileSystem>& chosen) {
  return chosen ? chosen : system_file_system();
}

}  // namespace

std::vector<CheckpointInfo> list_checkpoints(const std::string& parent, const CheckpointReadOptions& options) {
  const auto files = files_of(options.file_system);
  std::vector<CheckpointInfo> found;
  for (const DirectoryEntry& entry : files->list(parent)) {
    if (entry.kind != EntryKind::kDirectory) continue;
    try {
      if (auto info = look_at(*files, parent, entry.name)) found.push_back(std::move(*info));
    } catch (const Error&) {
      // What a retention has taken away since is none of them.
      if (files->kind(parent + "/" + entry.name) != EntryKind::kNone) throw;
    }
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
  if (files->kind(latest) == EntryKind::kNone) return std::nullopt;
  std::string name = read_small_file(*files, latest, kLatestBytesMax);
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

std::vector<std::string> clean_stale_checkpoints(const std::string& parent,
                                                 const std::shared_ptr<FileSystem>& file_system) {
  const auto files = files_of(file_system);
  std::vector<std::string> removed;
  for (const DirectoryEntry& entry : files->list(parent)) {
    if (entry.kind != EntryKind::kDirectory || !checkpoint::is_temporary_name(entry.name)) continue;
    const std::string name = parent + "/" + entry.name;
    const auto lock = files->lock_alone(name);
    if (!lock || !is_all_ours(*files, name)) continue;
    // It may be an old checkpoint whose successor's name is not durable yet. Only what was locked before the sync is
    // known to have its temporary name durable after it.
    files->sync_directory(parent);
    remove_tree(*files, name);
    removed.push_back(name);
  }
  return removed;
}

}  // namespace tzmark
