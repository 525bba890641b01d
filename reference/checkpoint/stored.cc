// Reading the records of a checkpoint, and its files against them.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "bytes/cursor.h"
#include "bytes/digest.h"
#include "bytes/threads.h"
#include "checkpoint/load.h"
#include "checkpoint/names.h"
#include "io/paths.h"

namespace tzmark::checkpoint {
namespace {

constexpr std::size_t kPieceBytes = 4 << 20;

// Reads a file in pieces, on several threads, and returns the digest of all of them.
class DigestPass {
 public:
  DigestPass(File& file, std::span<std::byte> into) : file_(file), into_(into), bytes_(file.size()) {
    pieces_.resize(static_cast<std::size_t>((bytes_ + kPieceBytes - 1) / kPieceBytes));
  }

  FileDigest run(unsigned threads) {
    if (threads == 0) threads = core_count();
    const auto count = std::min<std::size_t>(threads, pieces_.size());
    {
      const auto helpers = start_threads(count > 0 ? count - 1 : 0, [this](std::size_t) { work(); });
      work();
    }
    if (error_) std::rethrow_exception(error_);
    FileDigest all;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      all.crc64 = crc64_combine(all.crc64, pieces_[i], length(i));
      all.bytes += length(i);
    }
    return all;
  }

 private:
  std::size_t length(std::size_t piece) const {
    return static_cast<std::size_t>(std::min<std::uint64_t>(kPieceBytes, bytes_ - std::uint64_t{piece} * kPieceBytes));
  }

  void work() {
    try {
      std::vector<std::byte> own(into_.empty() && !pieces_.empty() ? length(0) : 0);
      for (std::size_t i = next_++; i < pieces_.size(); i = next_++) {
        const auto memory = into_.empty() ? std::span(own).first(length(i)) : into_.subspan(i * kPieceBytes, length(i));
        file_.read_at(std::uint64_t{i} * kPieceBytes, memory);
        pieces_[i] = crc64(0, memory);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
      next_ = pieces_.size();
    }
  }

  File& file_;
  const std::span<std::byte> into_;
  const std::uint64_t bytes_;
  std::vector<std::uint64_t> pieces_;
  std::atomic<std::size_t> next_ = 0;
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace

bool is_gone(const Directory& directory) {
  // Without commit.json, it is being deleted in its place.
  return !Directory(directory.name()).is_name_of(".", directory.get()) || !directory.has(std::string(kCommitName));
}

StoredCheckpoint::StoredCheckpoint(Directory directory, const CheckpointReadOptions& options)
    : directory_(std::move(directory)), options_(options) {
  const std::string commit = path(std::string(kCommitName));
  if (has_file(std::string(kCommitName))) {
    const std::string text = read_small_file(directory_, std::string(kCommitName), kRecordBytesMax);
    commit_ = with_context(commit, [&] { return parse_commit(text); });
  } else if (has_file(std::string(kUnfinishedName))) {
    throw Error(
        ErrorCode::kCheckpointUncommitted,
        fmt::format("{}: incomplete: it is being saved or deleted, or that was interrupted", directory_.name()));
  } else if (options_.commit == CheckpointReadOptions::Commit::kRequired) {
    throw Error(ErrorCode::kCheckpointUncommitted, fmt::format("{}: there is no such file", commit));
  }
  if (commit_) {
    for (const FileRecord& file : commit_->files) digests_.emplace(file.name, file.digest);
  }
  if (has(std::string(kShardingName))) {
    const std::string text = small_file(std::string(kShardingName));
    sharding_ = with_context(path(std::string(kShardingName)), [&] { return parse_sharding(text); });
  }
  if (commit_ && commit_->world_size != world_size()) {
    throw Error(ErrorCode::kCheckpointDamaged,
                fmt::format("{}: {} ranks, but {} has {}", commit, commit_->world_size, kShardingName, world_size()));
  }
}

// With a commit.json, only files that it lists belong to the checkpoint.
bool StoredCheckpoint::has(const std::string& name) const { return commit_ ? digests_.contains(name) : has_file(name); }

bool StoredCheckpoint::has_file(const std::string& name) const {
  const std::size_t slash = name.find('/');
  if (slash == std::string::npos) return directory_.kind(name) == EntryKind::kFile;
  const std::string rank = name.substr(0, slash);
  return directory_.kind(rank) == EntryKind::kDirectory &&
         directory_.open_directory(rank).kind(name.substr(slash + 1)) == EntryKind::kFile;
}

const FileDigest* StoredCheckpoint::expected(const std::string& name) const {
  if (!commit_) return nullptr;
  const auto found = digests_.find(name);
  if (found == digests_.end()) {
    throw Error(ErrorCode::kCheckpointDamaged, fmt::format("{}: not listed in {}", path(name), kCommitName));
  }
  return &found->second;
}

std::string StoredCheckpoint::prefix(std::uint32_t rank) const {
  return world_size() == 0 ? "" : rank_directory(rank) + "/";
}

std::optional<std::string> StoredCheckpoint::tensors_name(const std::string& prefix, std::string_view stem) const {
  for (const std::string_view ending : {".safetensors", ".tensors"}) {
    std::string name = fmt::format("{}{}{}", prefix, stem, ending);
    if (has(name)) return name;
  }
  return std::nullopt;
}

std::unique_ptr<File> StoredCheckpoint::open(const std::string& name) const {
  const FileDigest* const wanted = expected(name);
  if (!has_file(name)) {
    throw Error(ErrorCode::kCheckpointDamaged, fmt::format("{}: there is no such file", path(name)));
  }
  const std::size_t slash = name.find('/');
  std::optional<Directory> rank;
  if (slash != std::string::npos) rank = directory_.open_directory(name.substr(0, slash));
  const Directory& within = rank ? *rank : directory_;
  const std::string entry = rank ? name.substr(slash + 1) : name;
  if (options_.from_device) within.forget_cached(entry);
  auto file = within.read_file(entry, options_.io_path);
  if (wanted != nullptr && file->size() != wanted->bytes) {
    throw Error(ErrorCode::kCheckpointDamaged,
                fmt::format("{}: {} bytes, but {} records {}", path(name), file->size(), kCommitName, wanted->bytes));
  }
  return file;
}

void StoredCheckpoint::read(const std::string& name, File& file, std::span<std::byte> into) const {
  const FileDigest* const wanted = expected(name);
  const FileDigest found = with_context(path(name), [&] { return DigestPass(file, into).run(options_.threads); });
  if (wanted != nullptr && found != *wanted) {
    throw Error(ErrorCode::kCheckpointDamaged, fmt::format("{}: CRC-64 is {:016x}, but {} records {:016x}", path(name),
                                                           found.crc64, kCommitName, wanted->crc64));
  }
}

std::string StoredCheckpoint::small_file(const std::string& name) const {
  const auto file = open(name);
  if (file->size() > kRecordBytesMax) {
    throw Error(ErrorCode::kResource,
                fmt::format("{}: {} bytes; at most {} are read", path(name), file->size(), kRecordBytesMax));
  }
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  read(name, *file, std::as_writable_bytes(std::span(text)));
  return text;
}

TrainingState StoredCheckpoint::state(const std::string& prefix) const {
  const std::string name = prefix + std::string(kStateName);
  const std::string text = small_file(name);
  TrainingState state = with_context(path(name), [&] { return parse_state(text); });
  if (commit_ && commit_->step != state.step) {
    throw Error(ErrorCode::kCheckpointState,
                fmt::format("{}: step {}, but {} records step {}", path(name), state.step, kCommitName, commit_->step));
  }
  return state;
}

}  // namespace tzmark::checkpoint
