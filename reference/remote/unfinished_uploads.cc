// Objects that are there, and uploads of them that were begun and not ended; see tzmark/upload.h. Documentation:
// ListMultipartUploads in the API reference of Amazon S3.
#include <fmt/format.h>

#include <string_view>

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
// Against a server whose list has no end.
constexpr unsigned kListsMax = 10'000;

std::string encoded(std::string_view text) { return percent_encoded(text, "-._~"); }

struct Split {
  std::string bucket, key;
};

Split split(const std::string& s3_url) {
  const std::string name = s3_url.substr(s3_url.find("://") + 3);
  const std::size_t slash = std::min(name.find('/'), name.size());
  return {name.substr(0, slash), name.substr(std::min(slash + 1, name.size()))};
}

}  // namespace

std::optional<std::uint64_t> object_bytes(const std::string& s3_url) {
  const S3Destination to = destination_of(s3_url);
  S3Counts counts;
  const S3Reply reply = S3Sender(to, counts).send({.method = S3Method::kHead});
  if (reply.answer.status() == 404) return std::nullopt;
  require_success(reply, "it cannot be told whether the object exists");
  return reply.answer.content_length();
}

std::vector<std::string> remove_unfinished_uploads(const std::string& s3_prefix,
                                                   const std::function<bool(const std::string& s3_url)>& is_ours) {
  const S3Destination bucket = bucket_of(s3_prefix);
  const Split prefix = split(s3_prefix);
  S3Counts counts;
  S3Sender sender(bucket, counts);
  std::vector<std::string> removed;
  std::string key_marker, id_marker;
  for (unsigned lists = 0; lists < kListsMax; ++lists) {
    // In the order of the names, which is what is signed. Some servers refuse markers that are empty.
    const bool is_first = key_marker.empty();
    const std::string query =
        (is_first ? std::string() : fmt::format("key-marker={}&", encoded(key_marker))) +
        fmt::format("max-uploads={}&prefix={}&", kListedMax, encoded(prefix.key)) +
        (is_first || id_marker.empty() ? std::string() : fmt::format("upload-id-marker={}&", encoded(id_marker))) +
        "uploads=";
    const S3Reply reply = sender.send({.method = S3Method::kGet, .query = query});
    // What rclone answers for a bucket without any.
    if (reply.answer.status() == 404 && s3_code(reply.body) == "NoSuchUpload") return removed;
    require_success(reply, "unfinished uploads were not listed");
    constexpr std::string_view kBegin = "<Upload>", kEnd = "</Upload>";
    std::string_view rest = reply.body;
    for (std::size_t begin = rest.find(kBegin); begin != rest.npos; begin = rest.find(kBegin)) {
      rest.remove_prefix(begin + kBegin.size());
      const std::string_view entry = rest.substr(0, rest.find(kEnd));
      const std::string key = xml_text(entry, "Key");
      const std::string id = xml_text(entry, "UploadId");
      const std::string url = fmt::format("s3://{}/{}", prefix.bucket, key);
      if (key.empty() || id.empty() || !key.starts_with(prefix.key) || !is_ours(url)) continue;
      const S3Destination object = destination_of(url);
      const S3Reply removal =
          S3Sender(object, counts).send({.method = S3Method::kDelete, .query = "uploadId=" + encoded(id)});
      // Another process may have ended it meanwhile.
      if (removal.answer.status() != 404) require_success(removal, "an unfinished upload was not removed");
      removed.push_back(url);
    }
    if (xml_text(reply.body, "IsTruncated") != "true") return removed;
    const std::string next_key = xml_text(reply.body, "NextKeyMarker");
    const std::string next_id = xml_text(reply.body, "NextUploadIdMarker");
    if (next_key.empty() || (next_key == key_marker && next_id == id_marker)) return removed;
    key_marker = next_key;
    id_marker = next_id;
  }
  throw Error(ErrorCode::kWriteFailed, "the list of unfinished uploads has no end");
}

}  // namespace tzmark
