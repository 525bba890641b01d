// Renames a checkpoint before deleting it, so that no name ever belongs to a part of one.
#include "checkpoint/retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "checkpoint/catalog.h"
#include "checkpoint/line.h"
#include "checkpoint/load.h"
#include "checkpoint/names.h"
#include "checkpoint/probe.h"
#include "checkpoint/records.h"
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
    // Another process may have deleted it since.
    if (parent.has(name_of(info))) {
      warnings_.push_back(fmt::format("{}: kept, and not counted by retention: {}", info.directory, error.message()));
    }
    return false;
  }
}

bool RetentionPolicy::stays(const CheckpointInfo& info) const {
  return (retention_.keep_every != 0 && info.step % retention_.keep_every == 0) ||
         std::ranges::find(retention_.protect, name_of(info)) != retention_.protect.end();
}

bool RetentionPolicy::is_kept_by_caller(const Directory& parent, const CheckpointInfo& info) {
  if (!retention_.keep) return false;
  TrainingState state;
  try {
    const StoredCheckpoint stored(parent.open_directory(name_of(info)), reading_);
    state = stored.state(stored.prefix(0));
  } catch (const Error& error) {
    if (!parent.has(name_of(info))) return false;
    warnings_.push_back(fmt::format("{}: kept, as its state cannot be read: {}", info.directory, error.message()));
    return true;
  }
  return retention_.keep(info, state);
}

// Says once why the checkpoints of a run are not deleted. Copies are made on purpose, and need no word.
void RetentionPolicy::tell_foreign(const CheckpointInfo& info) {
  if (info.origin.sequence == 0) {
    if (told_.insert(std::string()).second) {
      warnings_.push_back(
          fmt::format("{}: not deleted, as all of releases that did not record their names: delete "
                      "them yourself if you do not need them",
                      info.directory));
    }
  } else if (info.is_original && told_.insert(info.origin.run).second) {
    warnings_.push_back(
        fmt::format("{}: not deleted, as all of its run: this run does not continue from it", info.directory));
  }
}

void RetentionPolicy::remove_checkpoint(const Directory& parent, const CheckpointInfo& info) {
  const std::string name = name_of(info);
  // The lock keeps a start of another process from cleaning it up. A stranger can exclude it, which stops nothing: the
  // rename below decides which process deletes it.
  const auto locked = parent.lock_or_open_directory(name);
  if (!locked) {
    if (parent.has(name)) {
      warnings_.push_back(fmt::format("{}: not deleted: another process has replaced it", info.directory));
    }
    return;
  }
  if (const auto foreign = foreign_entry(*locked)) {
    warnings_.push_back(
        fmt::format("{}: not deleted: it contains '{}', which no save writes", locked->name(), *foreign));
    return;
  }
  // Another directory may have taken the name since the list was made.
  try {
    const std::string commit = read_small_file(*locked, std::string(kCommitName), kRecordBytesMax);
    if (parse_commit(commit).save_id != info.save_id) return;
  } catch (const Error&) {
    if (!parent.is_name_of(name, locked->get())) return;
    throw;
  }
  const std::string temporary = temporary_name(name, new_save_id());
  if (!parent.try_rename_no_replace(name, temporary)) {
    if (errno == ENOENT) return;  // another process has deleted it
    if (is_rename_refused(errno)) return remove_in_place(parent, *locked, name);
    throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it to {}", info.directory, temporary));
  }
  if (!parent.is_name_of(temporary, locked->get())) {
    // Another process has replaced it since its commit.json was read. If a third one has the name by now, what that
    // one would have replaced stays for the next start to delete.
    if (!parent.try_rename_no_replace(temporary, name)) {
      warnings_.push_back(fmt::format("{}: another process has replaced it: it is now {}", info.directory, temporary));
    }
    static_cast<void>(parent.sync());
    return;
  }
  // Where names cannot be made durable, the save has said so.
  static_cast<void>(parent.sync());
  // If that is refused, others may keep it from being cleaned up later.
  static_cast<void>(locked->close_to_others());
  remove_content(*locked);
  parent.remove_directory(temporary);
}

std::vector<std::string> RetentionPolicy::apply(const Directory& parent, const std::string& newest,
                                                const std::string& save_id) {
  if (retention_.keep_latest == 0) return {};
  warnings_.clear();
  std::vector<CheckpointInfo> found;
  try {
    found = list(parent);
  } catch (const Error& error) {
    // The new checkpoint is durable; older ones can be deleted after another save.
    return {fmt::format("older checkpoints are not deleted: {}", error.message())};
  }
  const auto tip = std::ranges::find_if(
      found, [&](const CheckpointInfo& info) { return name_of(info) == newest && info.save_id == save_id; });
  if (tip == found.end()) {
    return {fmt::format("{}: replaced, deleted or unreadable since it was committed, so retention deletes nothing",
                        parent.path(newest))};
  }
  std::vector<CheckpointInfo> own;  // older than the new one, oldest first
  for (const CheckpointInfo& info : found) {
    if (info.status == CheckpointInfo::Status::kUnreadable) {
      warnings_.push_back(
          fmt::format("{}: unreadable, and not counted by retention: {}", info.directory, info.problem));
    }
    if (info.status != CheckpointInfo::Status::kCommitted || &info == &*tip) continue;
    if (info.is_original && is_on_line(tip->origin, info.origin)) {
      own.push_back(info);
    } else {
      tell_foreign(info);
    }
  }
  // Verification could only reduce the number of checkpoints to delete.
  const std::size_t old = own.size() - std::min(own.size(), retention_.keep_latest - 1);
  if (std::all_of(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(old),
                  [&](const CheckpointInfo& info) { return stays(info); })) {
    return std::exchange(warnings_, {});
  }
  try {
    verified_.insert(verify(StoredCheckpoint(parent.open_directory(newest), reading_)).save_id);
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: older checkpoints kept: the new one failed verification: {}",
                                          parent.path(newest), error.message()));
  }
  for (std::size_t whole = 1; !own.empty() && whole < retention_.keep_latest; own.pop_back()) {
    if (is_whole(parent, own.back())) ++whole;
  }
  try {
    std::erase_if(own, [&](const CheckpointInfo& info) { return stays(info) || is_kept_by_caller(parent, info); });
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: the checkpoint itself is durable, and older ones are kept: {}",
                                          parent.path(newest), error.message()));
  }
  for (const CheckpointInfo& info : own) {
    try {
      remove_checkpoint(parent, info);
    } catch (const Error& error) {
      warnings_.push_back(fmt::format("{}: not deleted: {}", info.directory, error.message()));
    }
  }
  return std::exchange(warnings_, {});
}

}  // namespace tzmark::checkpoint
