// Copying a committed checkpoint to S3, its commit.json last; see tzmark/checkpoint.h.
#include <fmt/format.h>

#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

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
using checkpoint::FileRecord;
using checkpoint::StoredCheckpoint;

// Returns what a commit.json on the server says. Throws TZE-ENV-001 for one that is none, as something else then has
// its name.
CommitRecord read_commit(const std::string& url) {
  const auto file = open_file(url, OpenMode::kRead);
  if (file->size() > checkpoint::kRecordBytesMax) {
    throw Error(ErrorCode::kOpenFailed, "an object is there that is too large for the commit of a checkpoint");
  }
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read_at(0, std::as_writable_bytes(std::span(text)));
  try {
    return checkpoint::parse_commit(text);
  } catch (const Error& error) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("an object is there that is no commit: {}", error.message()));
  }
}

class Copy {
 public:
  Copy(const StoredCheckpoint& stored, const std::string& prefix, const UploadOptions& options)
      : stored_(stored), commit_(*stored.commit()), prefix_(prefix), options_(options) {
    for (const FileRecord& file : commit_.files) urls_.insert(url_of(file.name));
    urls_.insert(url_of(commit_name()));
  }

  UploadedCheckpoint run() {
    UploadedCheckpoint copied;
    copied.step = commit_.step;
    copied.file_count = commit_.files.size() + 1;
    for (const FileRecord& file : commit_.files) copied.file_bytes += file.digest.bytes;
    copied.was_there = is_there();
    try {
      copied.removed_uploads =
          remove_unfinished_uploads(prefix_, [&](const std::string& url) { return urls_.contains(url); });
    } catch (const Error& error) {
      // Who may write need not be allowed to list.
      if (error.code() != ErrorCode::kWriteFailed) throw;
      check_wait();
      copied.why_not_listed = error.message();
    }
    if (copied.was_there) return copied;
    const auto send = [&](const std::string& name, File& file, const UploadOptions& options) {
      const UploadReport report = with_context(name, [&] { return upload(file, url_of(name), options); });
      copied.requests += report.requests;
      copied.retries += report.retries;
    };
    for (const FileRecord& file : commit_.files) {
      check_wait();
      const auto opened = stored_.open(file.name);
      // What is damaged here is not sent.
      stored_.read(file.name, *opened, {});
      send(file.name, *opened, options_);
    }
    const std::string text = checkpoint::serialize_commit(commit_);
    const auto file = temporary_file();
    file->write_at(0, std::as_bytes(std::span(text)));
    UploadOptions last = options_;
    last.may_replace = false;
    try {
      send(commit_name(), *file, last);
    } catch (const Error&) {
      // The answer may have been lost.
      if (!is_there()) throw;
    }
    return copied;
  }

 private:
  static std::string commit_name() { return std::string(checkpoint::kCommitName); }
  std::string url_of(const std::string& name) const { return prefix_ + name; }

  // Whether the same checkpoint is there. Throws TZE-ENV-001 for another one, which is not replaced: while its files
  // were, no checkpoint would be there.
  bool is_there() const {
    const std::string url = url_of(commit_name());
    if (!with_context(commit_name(), [&] { return object_bytes(url); })) return false;
    const CommitRecord other = with_context(commit_name(), [&] { return read_commit(url); });
    if (other.save_id == commit_.save_id && other.files == commit_.files) return true;
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("another checkpoint is there, of step {} and save {}: each needs a prefix of its own",
                            other.step, other.save_id));
  }

  const StoredCheckpoint& stored_;
  const CommitRecord& commit_;
  const std::string prefix_;
  const UploadOptions& options_;
  std::unordered_set<std::string> urls_;
};

}  // namespace

UploadedCheckpoint upload_checkpoint(const std::string& directory, const std::string& s3_prefix,
                                     const CheckpointReadOptions& options, const UploadOptions& upload_options) {
  constexpr std::string_view kScheme = "s3://";
  const std::size_t slash = s3_prefix.find('/', kScheme.size());
  if (!s3_prefix.starts_with(kScheme) || slash == s3_prefix.npos || slash + 1 == s3_prefix.size()) {
    throw Error(ErrorCode::kUsage, "checkpoints are copied to s3://bucket/prefix");
  }
  if (options.commit != CheckpointReadOptions::Commit::kRequired) {
    throw Error(ErrorCode::kUsage, "only committed checkpoints are copied");
  }
  const std::string prefix = s3_prefix.ends_with('/') ? s3_prefix : s3_prefix + "/";
  return checkpoint::with_stored(
      directory, options, [&](const StoredCheckpoint& stored) { return Copy(stored, prefix, upload_options).run(); });
}

}  // namespace tzmark
