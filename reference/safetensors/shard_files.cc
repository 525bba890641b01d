// Opening, keeping and closing the files of shards.
#include "safetensors/shard_files.h"

#include <algorithm>
#include <utility>

#include "codec/lanes.h"
#include "io/paths.h"
#include "tzmark/error.h"

namespace tzmark::safetensors {
namespace {

// A reader that is not used keeps this many open: most models have no more shards.
constexpr std::size_t kIdleMax = 8;
// More threads than this do not read at once from as many shards.
constexpr std::size_t kOpenMax = 64;

}  // namespace

ShardFiles::ShardFiles(std::string io_path)
    : io_path_(std::move(io_path)), open_max_(std::clamp<std::size_t>(open_streams_max(), 1, kOpenMax)) {}

void ShardFiles::add(std::string file_name) { shards_.emplace_back().file_name = std::move(file_name); }

void ShardFiles::add(std::unique_ptr<File> file) { shards_.emplace_back().file = std::move(file); }

File& ShardFiles::take(Shard& shard) {
  if (shard.file_name.empty()) return *shard.file;
  std::unique_lock lock(mutex_);
  while (!shard.file) {
    if (open_count_ < open_max_) {
      open(shard);
      ++open_count_;
      ++idle_count_;
    } else if (!close_idle()) {
      is_free_.wait(lock);
    }
  }
  if (shard.users++ == 0) --idle_count_;
  shard.used_at = ++clock_;
  return *shard.file;
}

void ShardFiles::give_back(Shard& shard) noexcept {
  if (shard.file_name.empty()) return;
  const std::lock_guard lock(mutex_);
  if (--shard.users != 0) return;
  if (++idle_count_ > kIdleMax) close_idle();
  is_free_.notify_all();
}

void ShardFiles::open(Shard& shard) const {
  auto file = open_file(shard.file_name, OpenMode::kRead, io_path_);
  const std::optional<FileVersion> version = file->version();
  if (shard.version && shard.version != version) {
    throw Error(ErrorCode::kFileChanged,
                "the file was replaced or changed since the model was opened: open the model again");
  }
  shard.file = std::move(file);
  shard.version = version;
}

bool ShardFiles::close_idle() {
  Shard* oldest = nullptr;
  for (Shard& shard : shards_) {
    if (!shard.file || shard.users != 0 || shard.file_name.empty()) continue;
    if (oldest == nullptr || shard.used_at < oldest->used_at) oldest = &shard;
  }
  if (oldest == nullptr) return false;
  oldest->file.reset();
  --open_count_;
  --idle_count_;
  return true;
}

}  // namespace tzmark::safetensors
