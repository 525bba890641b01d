// Copying a committed checkpoint to S3, its commit.json last; see tzmark/checkpoint.h.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "bytes/digest.h"
#include "bytes/utf8.h"
#include "checkpoint/load.h"
#include "checkpoint/names.h"
#include "checkpoint/records.h"
#include "io/paths.h"
#include "io/stream.h"
#include "io/wait_check.h"
#include "tzmark/checkpoint.h"
#include "tzmark/upload.h"

namespace tzmark {
namespace {

using checkpoint::CommitRecord;
using checkpoint::FileDigest;
using checkpoint::FileRecord;
using checkpoint::StoredCheckpoint;

// The text of commit.json, written first: that a checkpoint is on its way to the prefix, and which.
constexpr std::string_view kBegunName = "upload.json";

// Returns the record that an object has; nothing if there is no such object. Throws TZE-ENV-001 for one that has none.
std::optional<CommitRecord> read_record(const std::string& url) {
  const auto bytes = object_bytes(url);
  if (!bytes) return std::nullopt;
  if (*bytes > checkpoint::kRecordBytesMax) {
    throw Error(ErrorCode::kOpenFailed, "an object is there that is too large for the record of a checkpoint");
  }
  const auto file = open_file(url, OpenMode::kRead);
  std::string text(static_cast<std::size_t>(std::min(file->size(), checkpoint::kRecordBytesMax)), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text)));
  try {
    return checkpoint::parse_commit(text);
  } catch (const Error& error) {
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("an object is there that is no record of a checkpoint: {}", error.message()));
  }
}

// A file whose bytes are digested as they are read, which is when they are sent.
class SentFile final : public File {
 public:
  explicit SentFile(File& inner) : inner_(inner) {}
  std::string_view io_path() const override { return inner_.io_path(); }
  std::uint64_t size() const override { return inner_.size(); }

  // REQUIRES: no read is going on. Of a range that was read twice, either may be what was sent: the digest is then
  // that of an empty file.
  FileDigest digest() const {
    FileDigest all;
    if (has_repeated_) return all;
    for (const auto& [offset, piece] : pieces_) {
      if (offset != all.bytes) break;
      all.crc64 = crc64_combine(all.crc64, piece.crc64, piece.bytes);
      all.bytes += piece.bytes;
    }
    return all;
  }

 protected:
  std::size_t read_some(std::uint64_t offset, MutableBuffer out) override {
    inner_.read_at(offset, out);
    const FileDigest piece{.bytes = out.size, .crc64 = crc64(0, out.bytes())};
    const std::lock_guard lock(mutex_);
    has_repeated_ = !pieces_.emplace(offset, piece).second || has_repeated_;
    return out.size;
  }
  std::size_t write_some(std::uint64_t, ConstBuffer) override {
    throw Error(ErrorCode::kUsage, "a file that is sent is only read");
  }
  void sync_all() override {}

 private:
  File& inner_;
  std::mutex mutex_;
  std::map<std::uint64_t, FileDigest> pieces_;  // by offset
  bool has_repeated_ = false;
};

class Copy {
 public:
  Copy(const StoredCheckpoint& stored, const std::string& prefix, const UploadOptions& options)
      : stored_(stored), commit_(*stored.commit()), prefix_(prefix), options_(options) {
    for (const std::string_view name : {checkpoint::kCommitName, kBegunName}) urls_.insert(url_of(name));
    for (const FileRecord& file : commit_.files) {
      if (urls_.insert(url_of(file.name)).second) continue;
      throw Error(ErrorCode::kCheckpointDamaged,
                  fmt::format("{} lists the file '{}'", checkpoint::kCommitName, printable(file.name)));
    }
  }

  UploadedCheckpoint run() {
    copied_.step = commit_.step;
    copied_.file_count = commit_.files.size() + 1;
    for (const FileRecord& file : commit_.files) copied_.file_bytes += file.digest.bytes;
    const bool is_committed = is_there(checkpoint::kCommitName, "is there");
    if (!is_committed) begin();
    const UnfinishedUploads unfinished =
        remove_unfinished_uploads(prefix_, [&](const std::string& url) { return urls_.contains(url); });
    copied_.removed_uploads = unfinished.removed;
    copied_.why_not_listed = unfinished.why_not_all;
    copied_.was_there = is_committed;
    for (const FileRecord& file : commit_.files) {
      check_wait();
      if (is_committed && object_bytes(url_of(file.name)) == file.digest.bytes) continue;
      copied_.was_there = false;
      send_file(file);
    }
    if (!is_committed) send_record(checkpoint::kCommitName, "is there");
    return copied_;
  }

 private:
  std::string url_of(std::string_view name) const { return prefix_ + std::string(name); }

  void send(std::string_view name, File& file, const UploadOptions& options) {
    const UploadReport report = with_context(std::string(name), [&] { return upload(file, url_of(name), options); });
    copied_.requests += report.requests;
    copied_.retries += report.retries;
  }

  // Throws CKP-002 if other bytes were sent than commit.json records.
  void send_file(const FileRecord& file) {
    const auto opened = stored_.open(file.name);
    SentFile sent(*opened);
    send(file.name, sent, options_);
    if (sent.digest() == file.digest) return;
    throw Error(ErrorCode::kCheckpointDamaged,
                fmt::format("{}: it is damaged, or changed while it was sent: it is not what {} records",
                            stored_.path(file.name), checkpoint::kCommitName));
  }

  // Writes an object that must not exist yet, and looks at what is there then: the answer may have been lost, and not
  // every server knows this condition.
  void send_record(std::string_view name, const char* what) {
    const std::string text = checkpoint::serialize_commit(commit_);
    const auto file = temporary_file();
    file->write_at(0, std::as_bytes(std::span(text)));
    UploadOptions once = options_;
    once.may_replace = false;
    std::exception_ptr failure;
    try {
      send(name, *file, once);
    } catch (const Error&) {
      failure = std::current_exception();
    }
    if (is_there(name, what)) return;
    if (failure) std::rethrow_exception(failure);
    throw Error(ErrorCode::kWriteFailed, fmt::format("{}: the object that was written is not there", name));
  }

  // Lets commands for another checkpoint know that this one is on its way: the files of two would be mixed.
  void begin() {
    constexpr const char* kWhat = "has begun to be sent there (upload.json), and was not ended";
    if (!is_there(kBegunName, kWhat)) send_record(kBegunName, kWhat);
  }

  // Whether this checkpoint's record is there. Throws TZE-ENV-001 for that of another one, which is not replaced: while
  // its files were, no checkpoint would be there.
  bool is_there(std::string_view name, const char* what) const {
    const auto found = with_context(std::string(name), [&] { return read_record(url_of(name)); });
    if (!found) return false;
    if (found->save_id == commit_.save_id && found->files == commit_.files) return true;
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("another checkpoint {}, of step {} and save {}: each needs a prefix of its own", what,
                            found->step, found->save_id));
  }

  const StoredCheckpoint& stored_;
  const CommitRecord& commit_;
  const std::string prefix_;
  const UploadOptions& options_;
  std::unordered_set<std::string> urls_;
  UploadedCheckpoint copied_;
};

}  // namespace

UploadedCheckpoint upload_checkpoint(const std::string& directory, const std::string& s3_prefix,
                                     const CheckpointReadOptions& options, const UploadOptions& upload_options) {
  constexpr std::string_view kScheme = "s3://";
  const std::size_t slash = s3_prefix.find('/', kScheme.size());
  if (!is_s3_url(s3_prefix) || slash == s3_prefix.npos || slash + 1 == s3_prefix.size()) {
    throw Error(ErrorCode::kUsage, "checkpoints are copied to s3://bucket/prefix");
  }
  if (options.commit != CheckpointReadOptions::Commit::kRequired) {
    throw Error(ErrorCode::kUsage, "only committed checkpoints are copied");
  }
  // The scheme may be in upper case.
  std::string prefix = std::string(kScheme) + s3_prefix.substr(kScheme.size());
  if (!prefix.ends_with('/')) prefix += '/';
  return checkpoint::with_stored(
      directory, options, [&](const StoredCheckpoint& stored) { return Copy(stored, prefix, upload_options).run(); });
}

}  // namespace tzmark
