// The rows of the registry of I/O paths that read URLs.
//
// Thread-safe. Errors: TZE-AVL-001 where a path is not available; TZE-USE-001 for an invalid URL or setting.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tzmark/io.h"

namespace tzmark {

struct RemotePath {
  std::string_view name, summary;
  PathTraits traits;
  std::function<std::string()> why_unavailable;
  // make_copy: creates a temporary file, for servers that cannot send parts of a file.
  std::function<std::unique_ptr<File>(const std::string& url, const std::function<std::unique_ptr<File>()>& make_copy)>
      open;
};

std::span<const RemotePath> remote_paths();

// Returns the path for a URL. Throws TZE-AVL-001 if io_path is neither it nor "auto", or if it is not available.
const RemotePath& remote_path_for(std::string_view url, std::string_view io_path);

}  // namespace tzmark
