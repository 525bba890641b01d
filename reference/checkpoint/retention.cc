// Which checkpoints go, and how: under a temporary name first, so that none is ever half there under its own.
#include "checkpoint/retention.h"

#include <fmt/format.h>

#include <algorithm>

#include "tzmark/error.h"

namespace tzmark::checkpoint {
namespace {

std::vector<CheckpointInfo> doomed_by(const Retention& retention, std::vector<CheckpointInfo> all,
                                      const std::string& newest) {
  std::erase_if(all, [](const CheckpointInfo& info) { return info.status != CheckpointInfo::Status::kCommitted; });
  // The list is in the order of steps; those that stay are its end.
  all.resize(all.size() - std::min(all.size(), retention.keep_latest));
  std::erase_if(all, [&](const CheckpointInfo& info) {
    return info.directory == newest || (retention.keep_every != 0 && info.step % retention.keep_every == 0);
  });
  return all;
}

void remove_checkpoint(FileSystem& files, const std::string& directory) {
  const Place place = place_of(directory);
  // Held until all of it is gone, so that nobody else clears up the same files.
  const auto lock = files.lock_shared(directory);
  if (!lock) return;
  const std::string temporary = place.temporary(new_save_id());
  files.rename_directory(directory, temporary);
  files.sync_directory(place.parent);
  remove_tree(files, temporary);
}

}  // namespace

void apply_retention(const std::shared_ptr<FileSystem>& files, const Place& newest, const Retention& retention,
                     unsigned threads) {
  if (retention.keep_latest == 0) return;
  CheckpointReadOptions options;
  options.file_system = files;
  options.threads = threads;
  const auto doomed = doomed_by(retention, list_checkpoints(newest.parent, options), newest.directory());
  if (doomed.empty()) return;
  options.from_device = true;
  verify_checkpoint(newest.directory(), options);
  for (const CheckpointInfo& old : doomed) remove_checkpoint(*files, old.directory);
}

}  // namespace tzmark::checkpoint
