// Which checkpoints go, and how: under a temporary name first, so that none is ever half there under its own.
#include "checkpoint/retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/load.h"
#include "checkpoint/removal.h"
#include "tzmark/error.h"

namespace tzmark::checkpoint {

RetentionPolicy::RetentionPolicy(const Retention& retention, std::shared_ptr<FileSystem> files, unsigned threads)
    : retention_(retention), files_(std::move(files)) {
  reading_.file_system = files_;
  reading_.threads = threads;
  reading_.from_device = true;
}

// Reading every checkpoint again after each save would cost more than the saves.
bool RetentionPolicy::is_whole(const CheckpointInfo& info) {
  try {
    if (verified_.contains(info.save_id)) {
      const StoredCheckpoint stored(info.directory, reading_);
      for (const FileRecord& file : stored.commit()->files) static_cast<void>(stored.open(file.name));
    } else {
      verify_checkpoint(info.directory, reading_);
      verified_.insert(info.save_id);
    }
    return true;
  } catch (const Error& error) {
    warnings_.push_back(fmt::format("{}: kept, and not counted by retention: {}", info.directory, error.message()));
    return false;
  }
}

bool RetentionPolicy::stays(const CheckpointInfo& info, const std::string& newest) const {
  return info.directory == newest || (retention_.keep_every != 0 && info.step % retention_.keep_every == 0);
}

// committed: in the order of steps.
std::vector<CheckpointInfo> RetentionPolicy::doomed(const std::string& newest, std::vector<CheckpointInfo> committed) {
  std::size_t whole = 0;
  while (!committed.empty() && whole < retention_.keep_latest) {
    if (committed.back().directory == newest || is_whole(committed.back())) ++whole;
    committed.pop_back();
  }
  std::erase_if(committed, [&](const CheckpointInfo& info) { return stays(info, newest); });
  return committed;
}

void RetentionPolicy::remove_checkpoint(const std::string& directory) {
  const Place place = place_of(directory);
  // Held until all of it is gone, so that nobody else clears up the same files.
  const auto locked = files_->lock_shared(directory);
  if (!locked) return;
  if (const auto foreign = foreign_entry(*locked)) {
    warnings_.push_back(fmt::format("{}: not deleted: it contains '{}', which no save writes", directory, *foreign));
    return;
  }
  const std::string temporary = place.temporary(new_save_id());
  files_->rename_directory(directory, temporary);
  files_->sync_directory(place.parent);
  remove_content(*locked);
  files_->remove_directory(temporary);
}

std::vector<std::string> RetentionPolicy::apply(const Place& newest) {
  if (retention_.keep_latest == 0) return {};
  warnings_.clear();
  std::vector<CheckpointInfo> committed = list_checkpoints(newest.parent, reading_);
  for (const CheckpointInfo& info : committed) {
    if (info.status == CheckpointInfo::Status::kUnreadable) {
      warnings_.push_back(
          fmt::format("{}: unreadable, and not counted by retention: {}", info.directory, info.problem));
    }
  }
  std::erase_if(committed,
                [](const CheckpointInfo& info) { return info.status != CheckpointInfo::Status::kCommitted; });
  // If all of them were whole, as many or more would go.
  const std::size_t old = committed.size() - std::min(committed.size(), retention_.keep_latest);
  if (std::all_of(committed.begin(), committed.begin() + static_cast<std::ptrdiff_t>(old),
                  [&](const CheckpointInfo& info) { return stays(info, newest.directory()); })) {
    return std::exchange(warnings_, {});
  }
  verified_.insert(verify_checkpoint(newest.directory(), reading_).save_id);
  for (const CheckpointInfo& info : doomed(newest.directory(), std::move(committed))) {
    remove_checkpoint(info.directory);
  }
  return std::exchange(warnings_, {});
}

}  // namespace tzmark::checkpoint
