// See remote/paths.h.
#include "remote/paths.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "io/url.h"
#include "remote/remote_file.h"
#include "tzmark/error.h"

namespace tzmark {

std::span<const RemotePath> remote_paths() {
  constexpr PathTraits kTraits = {.is_asynchronous = true, .is_fork_safe = false, .is_remote = true};
  static const std::array<RemotePath, 2> paths = {
      {{"http", "reads http and https URLs, many requests at a time", kTraits, why_no_requests, open_http},
       {"s3", "reads s3 URLs in the same way, with signed requests", kTraits, why_no_signed_requests, open_s3}}};
  return paths;
}

const RemotePath& remote_path_for(std::string_view url, std::string_view io_path) {
  const auto paths = remote_paths();
  const RemotePath& path = *std::ranges::find(paths, url_scheme(url) == "s3" ? "s3" : "http", &RemotePath::name);
  if (io_path != "auto" && io_path != path.name) {
    throw Error(ErrorCode::kUnavailable, fmt::format("I/O path {}: it does not read {} URLs; path {} does", io_path,
                                                     url_scheme(url), path.name));
  }
  if (const std::string reason = path.why_unavailable(); !reason.empty()) {
    throw Error(ErrorCode::kUnavailable, fmt::format("I/O path {}: {}", path.name, reason));
  }
  return path;
}

}  // namespace tzmark
