// Files that are opened or created by name, and files without a name.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/stream.h"
#include "io/url.h"
#include "os/directory.h"
#include "os/temporary_name.h"
#include "remote/paths.h"

namespace tzmark {
namespace {

void require_known_path(std::string_view io_path) {
  const auto paths = io_paths();
  if (io_path == "auto" || std::ranges::find(paths, io_path, &IoPath::name) != paths.end()) return;
  std::string names;
  for (const IoPath& path : paths) names += fmt::format("{}{}", names.empty() ? "" : ", ", path.name);
  throw Error(ErrorCode::kUsage,
              fmt::format("there is no I/O path '{}'; this build has {}", display_name(io_path), names));
}

}  // namespace

std::span<const IoPath> io_paths() {
  static const auto paths = [] {
    std::vector<IoPath> rows;
    for (const PathOfDescriptor& path : paths_of_descriptors()) {
      rows.push_back({path.name, path.summary, path.variant_of, path.traits, path.why_unavailable,
                      [name = path.name](const std::string& file_name, OpenMode mode) {
                        return open_file(file_name, mode, name);
                      }});
    }
    for (const RemotePath& path : remote_paths()) {
      rows.push_back({path.name,
                      path.summary,
                      {},
                      path.traits,
                      path.why_unavailable,
                      [name = path.name](const std::string& file_name, OpenMode mode) {
                        return open_file(file_name, mode, name);
                      }});
    }
    return rows;
  }();
  return paths;
}

PathTraits path_traits(std::string_view io_path) {
  const auto paths = io_paths();
  const auto path = std::ranges::find(paths, io_path, &IoPath::name);
  return path == paths.end() ? PathTraits() : path->traits;
}

std::unique_ptr<File> open_file(const std::string& file_name, OpenMode mode, std::string_view io_path) {
  require_known_path(io_path);
  if (is_url(file_name)) {
    if (mode != OpenMode::kRead) require_local(file_name);
    return remote_path_for(file_name, io_path).open(file_name, temporary_file);
  }
  if (path_traits(io_path).is_remote) {
    throw Error(ErrorCode::kUnavailable, fmt::format("I/O path {}: it reads URLs, not files of this machine", io_path));
  }
  // A path that this machine lacks is refused before anything is created.
  const PathOfDescriptor& path = usable_path(io_path);
  if (mode == OpenMode::kCreate) {
    return Directory::of(file_name).create_file(name_in_directory(file_name), path.name);
  }
  return open_file(open_descriptor(file_name, mode), file_name, mode, path.name);
}

std::unique_ptr<File> temporary_file() {
  const char* const from_environment = ::getenv("TMPDIR");
  const bool is_set = from_environment != nullptr && *from_environment != '\0';
  const std::string name = is_set ? from_environment : "/tmp";
  try {
    const auto directory = std::make_shared<const Directory>(name);
    return open_file(create_unnamed(directory, "tzmark", 0600), directory->name(), OpenMode::kModify, "pwrite");
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("no temporary file in {}: {}; set TMPDIR to a directory that can be written",
                                          is_set ? name + ", which TMPDIR names" : name, error.message()));
  }
}

std::unique_ptr<File> spool(int descriptor, const std::function<void(std::span<const std::byte>)>& check) {
  auto file = temporary_file();
  std::vector<std::byte> block(1 << 20);
  std::size_t head_bytes = 0;
  while (head_bytes < kStreamHeadBytes) {
    const std::size_t moved = read_stream(descriptor, std::span(block).subspan(head_bytes), head_bytes);
    if (moved == 0) break;
    head_bytes += moved;
  }
  if (check) check(std::span(block).first(std::min(head_bytes, kStreamHeadBytes)));
  file->write_at(0, {block.data(), head_bytes});
  for (std::uint64_t offset = head_bytes;;) {
    const std::size_t moved = read_stream(descriptor, block, offset);
    if (moved == 0) return file;
    file->write_at(offset, {block.data(), moved});
    offset += moved;
  }
}

}  // namespace tzmark
