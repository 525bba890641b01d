// Renames a checkpoint before deleting it, so that no name ever belongs to a part of one.
#include "checkpoint/retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/catalog.h"
#include "checkpoint/load.h"
#include "checkpoint/names.h"
#include "checkpoint/probe.h"
#include "checkpoint/removal.h"
#include "checkpoint/unfinished.h"
#include "io/paths.h"
#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

std::string name_of(const CheckpointInfo& info) { return name_in_directory(info.directory); }

}  // namespace

RetentionPolicy::RetentionPolicy(const Retention& retention, unsigned threads) : retention_(retention) {
  reading_.threads = threads;
  reading_.from_device = true;
}

// Reads a checkpoint only once: reading all of them after each save would cost more than the saves.
bool RetentionPolicy::is_whole(const Directory& parent, const CheckpointInfo& info) {
  try {
    const StoredCheckpoint stored(parent.open_directory(name_of(info)), reading_);
    if (verified_.contains(info.save_id)) {
      for (const FileRecord& file : stored.commit()->files) static_cast<void>(stored.open(file.name));
    } else {
      verify(stored);
      verified_.insert(info.save_id);
    }
    return true;
  } catch (const Error& error) {
    warnings_.push_back(fmt::format("{}: kept, and not counted by retention: {}", info.directory, error.message()));
    return false;
  }
}

bool RetentionPolicy::stays(const CheckpointInfo& info, const std::string& newest) const {
  return name_of(info) == newest || (retention_.keep_every != 0 && info.step % retention_.keep_every == 0);
}

// REQUIRES: committed is sorted by step.
std::vector<CheckpointInfo> RetentionPolicy::doomed(const Directory& parent, const std::string& newest,
                                                    std::vector<CheckpointInfo> committed) {
  std::size_t whole = 0;
  while (!committed.empty() && whole < retention_.keep_latest) {
    if (name_of(committed.back()) == newest || is_whole(parent, committed.back())) ++whole;
    committed.pop_back();
  }
  std::erase_if(committed, [&](const CheckpointInfo& info) { return stays(info, newest); });
  return committed;
}

void RetentionPolicy::remove_checkpoint(const Directory& parent, const std::string& name) {
  // The lock keeps other processes from deleting the same files. One that excludes it is held by a stranger: saves lock
  // nothing but temporary names exclusively.
  const auto locked = parent.lock_or_open_directory(name);
  if (!locked) return;
  if (const auto foreign = foreign_entry(*locked)) {
    warnings_.push_back(
        fmt::format("{}: not deleted: it contains '{}', which no save writes", locked->name(), *foreign));
    return;
  }
  const std::string temporary = temporary_name(name, new_save_id());
  if (!parent.try_rename_no_replace(name, temporary)) {
    if (is_rename_refused(errno)) return remove_in_place(parent, *locked, name);
    throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it", locked->name()));
  }
  // Where names cannot be made durable, the save has said so.
  static_cast<void>(parent.sync());
  // If that is refused, others may keep it from being cleaned up later.
  static_cast<void>(locked->close_to_others());
  remove_content(*locked);
  parent.remove_directory(temporary);
}

std::vector<std::string> RetentionPolicy::apply(const Directory& parent, const std::string& newest) {
  if (retention_.keep_latest == 0) return {};
  warnings_.clear();
  std::vector<CheckpointInfo> committed;
  try {
    committed = list(parent);
  } catch (const Error& error) {
    // The new checkpoint is durable; older ones can be deleted after another save.
    return {fmt::format("older checkpoints are not deleted: {}", error.message())};
  }
  for (const CheckpointInfo& info : committed) {
    if (info.status == CheckpointInfo::Status::kUnreadable) {
      warnings_.push_back(
          fmt::format("{}: unreadable, and not counted by retention: {}", info.directory, info.problem));
    }
  }
  std::erase_if(committed,
                [](const CheckpointInfo& info) { return info.status != CheckpointInfo::Status::kCommitted; });
  // Verification could only reduce the number of checkpoints to delete.
  const std::size_t old = committed.size() - std::min(committed.size(), retention_.keep_latest);
  if (std::all_of(committed.begin(), committed.begin() + static_cast<std::ptrdiff_t>(old),
                  [&](const CheckpointInfo& info) { return stays(info, newest); })) {
    return std::exchange(warnings_, {});
  }
  try {
    verified_.insert(verify(StoredCheckpoint(parent.open_directory(newest), reading_)).save_id);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: older checkpoints kept: the new one failed verification: {}",
                                          parent.path(newest), error.message()));
  }
  for (const CheckpointInfo& info : doomed(parent, newest, std::move(committed))) {
    try {
      remove_checkpoint(parent, name_of(info));
    } catch (const Error& error) {
      warnings_.push_back(fmt::format("{}: not deleted: {}", info.directory, error.message()));
    }
  }
  return std::exchange(warnings_, {});
}

}  // namespace tzmark::checkpoint
