// What remote_file.h and upload.h declare, in builds without the header of libcurl.
#include "remote/remote_file.h"
#include "tzmark/error.h"
#include "tzmark/upload.h"

namespace tzmark {

std::string why_no_requests() { return "built without libcurl's headers (libcurl4-openssl-dev)"; }
std::string why_no_signed_requests() { return why_no_requests(); }

std::unique_ptr<File> open_http(const std::string&, const MakeCopy&) {
  throw Error(ErrorCode::kUnavailable, why_no_requests());
}
std::unique_ptr<File> open_s3(const std::string& url, const MakeCopy& make_copy) { return open_http(url, make_copy); }

UploadReport upload(File&, const std::string&, const UploadOptions&) {
  throw Error(ErrorCode::kUnavailable, why_no_requests());
}
std::optional<std::uint64_t> object_bytes(const std::string&) {
  throw Error(ErrorCode::kUnavailable, why_no_requests());
}
UnfinishedUploads remove_unfinished_uploads(const std::string&, const std::function<bool(const std::string&)>&) {
  throw Error(ErrorCode::kUnavailable, why_no_requests());
}

}  // namespace tzmark
