// Reading the index of a model that is about to be replaced.
#include "safetensors/old_set.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <climits>
#include <regex>

#include "bytes/cursor.h"
#include "safetensors/shard_index.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::safetensors {

std::optional<FileNames> files_of_index(const Directory& directory, const std::string& index_name) {
  // A symbolic link is followed: what it leads to names files of this folder.
  Descriptor opened(::openat(directory.get(), index_name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (opened.get() < 0 && errno == ENOENT) return FileNames();
  struct stat status {};
  if (opened.get() < 0 || ::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  try {
    const auto file = open_file(std::move(opened), index_name, OpenMode::kRead);
    if (file->size() > kShardIndexBytesMax) return std::nullopt;
    std::vector<std::byte> text(static_cast<std::size_t>(file->size()));
    file->read_at(0, std::span(text));
    const ShardIndex index(as_text(text));
    return FileNames(index.files().begin(), index.files().end());
  } catch (const Error&) {
    // A damaged model may be replaced as any other.
    return std::nullopt;
  }
}

bool is_shard_file_name(std::string_view name, std::string_view base_name) {
  // What is longer is no name of a file, and the matcher's stack grows with its text.
  if (name.size() > NAME_MAX || !name.starts_with(base_name)) return false;
  name.remove_prefix(base_name.size());
  static const std::regex pattern(R"((\.tmp-[0-9a-f]{8})?-[0-9]{5,}-of-[0-9]{5,}\.safetensors)");
  return std::regex_match(name.begin(), name.end(), pattern);
}

}  // namespace tzmark::safetensors
