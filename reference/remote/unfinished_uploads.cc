// Objects that are there, and uploads of them that were begun and not ended; see tzmark/upload.h. Documentation:
// ListMultipartUploads in the API reference of Amazon S3.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "io/url.h"
#include "remote/easy.h"
#include "remote/s3_sender.h"
#include "remote/upload_text.h"
#include "tzmark/error.h"
#include "tzmark/upload.h"

namespace tzmark {
namespace {

// A list of so many fits into a reply, whose length is limited, with the longest usual names.
constexpr unsigned kListedMax = 20;
// Of all requests for a list together: what is asked for by the way shall not hold up what was asked for.
constexpr std::chrono::milliseconds kTimeMax{60'000};

std::string encoded(std::string_view text) { return percent_encoded(text, "-._~"); }

struct Split {
  std::string bucket, key;
};

Split split(const std::string& s3_url) {
  const std::string name = s3_url.substr(s3_url.find("://") + 3);
  const std::size_t slash = std::min(name.find('/'), name.size());
  return {name.substr(0, slash), name.substr(std::min(slash + 1, name.size()))};
}

class Listing {
 public:
  Listing(const std::string& prefix, const std::function<bool(const std::string&)>& is_ours, UnfinishedUploads& result)
      : bucket_(bucket_of(prefix)), prefix_(split(prefix)), is_ours_(is_ours), result_(result) {}

  void run() {
    const auto end = std::chrono::steady_clock::now() + std::min(kTimeMax, bucket_.settings.deadline);
    S3Counts counts;
    S3Sender sender(bucket_, counts);
    Markers markers;
    for (;;) {
      const S3Reply reply = sender.send({.method = S3Method::kGet, .query = query_after(markers)});
      // What rclone answers for a bucket without any.
      if (reply.answer.status() == 404 && s3_code(reply.body) == "NoSuchUpload") return;
      require_success(reply, "unfinished uploads were not listed");
      remove_listed(reply.body);
      if (xml_text(reply.body, "IsTruncated") != "true") break;
      Markers next = {xml_text(reply.body, "NextKeyMarker"), xml_text(reply.body, "NextUploadIdMarker")};
      if (next.key.empty() || next.key < markers.key || next == markers) {
        throw Error(ErrorCode::kWriteFailed, "the list of unfinished uploads does not go on as it says");
      }
      if (std::chrono::steady_clock::now() > end) {
        throw Error(ErrorCode::kWriteFailed, "the list of unfinished uploads did not end before the deadline");
      }
      markers = std::move(next);
    }
    if (has_unknown_) throw Error(ErrorCode::kWriteFailed, "some unfinished uploads have names that cannot be read");
  }

 private:
  struct Markers {
    std::string key = {}, id = {};
    friend bool operator==(const Markers&, const Markers&) = default;
  };

  // In the order of the names, which is what is signed. Some servers refuse markers that are empty.
  std::string query_after(const Markers& markers) const {
    std::string query;
    if (!markers.key.empty()) query += fmt::format("key-marker={}&", encoded(markers.key));
    query += fmt::format("max-uploads={}&prefix={}&", kListedMax, encoded(prefix_.key));
    if (!markers.id.empty()) query += fmt::format("upload-id-marker={}&", encoded(markers.id));
    return query + "uploads=";
  }

  void remove_listed(std::string_view rest) {
    constexpr std::string_view kBegin = "<Upload>", kEnd = "</Upload>";
    for (std::size_t begin = rest.find(kBegin); begin != rest.npos; begin = rest.find(kBegin)) {
      rest.remove_prefix(begin + kBegin.size());
      const std::string_view entry = rest.substr(0, rest.find(kEnd));
      const std::string key = xml_text(entry, "Key");
      const std::string id = xml_text(entry, "UploadId");
      const std::string url = fmt::format("s3://{}/{}", prefix_.bucket, key);
      has_unknown_ = has_unknown_ || key.empty() || id.empty();
      if (key.empty() || id.empty() || !key.starts_with(prefix_.key) || !is_ours_(url)) continue;
      const S3Destination object = destination_of(url);
      S3Counts counts;
      const S3Reply removal =
          S3Sender(object, counts).send({.method = S3Method::kDelete, .query = "uploadId=" + encoded(id)});
      // Another process may have ended it meanwhile.
      if (removal.answer.status() != 404) require_success(removal, "an unfinished upload was not removed");
      result_.removed.push_back(url);
    }
  }

  const S3Destination bucket_;
  const Split prefix_;
  const std::function<bool(const std::string&)>& is_ours_;
  UnfinishedUploads& result_;
  bool has_unknown_ = false;
};

}  // namespace

std::optional<std::uint64_t> object_bytes(const std::string& s3_url) {
  const S3Destination to = destination_of(s3_url);
  S3Counts counts;
  const S3Reply reply = S3Sender(to, counts).send({.method = S3Method::kHead});
  if (reply.answer.status() == 404) return std::nullopt;
  require_success(reply, "it cannot be told whether the object exists");
  return reply.answer.content_length();
}

UnfinishedUploads remove_unfinished_uploads(const std::string& s3_prefix,
                                            const std::function<bool(const std::string& s3_url)>& is_ours) {
  UnfinishedUploads result;
  try {
    Listing(s3_prefix, is_ours, result).run();
  } catch (const Error& error) {
    // Who may write need not be allowed to list.
    if (error.code() != ErrorCode::kWriteFailed) throw;
    result.why_not_all = error.message();
  }
  return result;
}

}  // namespace tzmark
