// Copies a file to S3: all of it appears there, or nothing.
//
// A large file goes in parts, several at a time. The SHA-256 of each request's body is a part of its signature, so that
// the server refuses what it did not receive as it was sent. The object appears when all parts are there, in place of
// an older one. A failure removes the parts from the server; those of a process that was killed stay, and cost, until a
// rule of the bucket's lifecycle or remove_unfinished_uploads removes them. An upload that the wait check of
// tzmark/io.h ends removes them too. Requests are repeated as those that read are, with the same settings and
// credentials: see docs/remote.md.
//
// Thread-safe. Errors: TZE-USE-001 for what is no s3 URL; TZE-AVL-001 without libcurl 7.87; TZE-ENV-003 if the server
// does not take the file, with its answer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tzmark/io.h"

namespace tzmark {

// Whether a name is a URL of S3: "s3://bucket/key".
bool is_s3_url(std::string_view name);

struct UploadOptions {
  std::uint64_t part_bytes = 16 << 20;  // at least 5 MiB; larger for a file of more than 10,000 parts
  unsigned threads = 4;                 // parts at a time, each of which is kept in memory
  // Whether the object may exist already. If not, the request says so: servers that know no If-None-Match replace one
  // that was made meanwhile.
  bool may_replace = true;
  // Called with the bytes of each part that is there, by several threads. May throw, which ends the upload.
  std::function<void(std::uint64_t bytes)> progress = {};
};

struct UploadReport {
  unsigned parts = 0;  // 0: one request for all of it
  std::uint64_t requests = 0, retries = 0;
  std::string why_not_checked = {};  // why the size of the object could not be compared; empty if it was
};

UploadReport upload(File& file, const std::string& s3_url, const UploadOptions& options = {});

// Returns the size of an object; nothing if there is none. Throws TZE-ENV-003 where the server does not tell.
std::optional<std::uint64_t> object_bytes(const std::string& s3_url);

// Removes the parts of uploads that were begun and not ended, which cost as objects do. s3_prefix: "s3://bucket/run/",
// with which the URLs of these objects begin. is_ours(s3_url): whether to remove those of this object; an upload of it
// that another process still makes then fails.
struct UnfinishedUploads {
  std::vector<std::string> removed;  // the URL of the object, for each upload
  std::string why_not_all = {};      // why there may be others; empty if there are none
};
UnfinishedUploads remove_unfinished_uploads(const std::string& s3_prefix,
                                            const std::function<bool(const std::string& s3_url)>& is_ours);

}  // namespace tzmark
