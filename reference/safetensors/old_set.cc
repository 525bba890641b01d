// Reading the index of a model that will be replaced.
#include "safetensors/old_set.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "bytes/cursor.h"
#include "os/temporary_name.h"
#include "safetensors/shard_index.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::safetensors {

std::optional<FileNames> files_of_index(const Directory& directory, const std::string& index_name) {
  // Follows a symbolic link, whose target names files of this directory.
  Descriptor opened = directory.open_file(index_name, O_RDONLY, Links::kFollow);
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
    // A damaged model may be replaced like any other.
    return std::nullopt;
  }
}

bool may_remove_files_of_index(const Directory& directory, const std::string& index_name) {
  struct stat entry {};
  struct stat index {};
  struct stat place {};
  if (::fstatat(directory.get(), index_name.c_str(), &entry, AT_SYMLINK_NOFOLLOW) != 0 ||
      ::fstatat(directory.get(), index_name.c_str(), &index, 0) != 0 || ::fstat(directory.get(), &place) != 0) {
    return false;
  }
  const bool is_closed = (place.st_mode & (S_IWGRP | S_IWOTH)) == 0;
  const auto is_trusted = [&](uid_t owner) { return owner == ::geteuid() || (is_closed && owner == place.st_uid); };
  return is_trusted(entry.st_uid) && is_trusted(index.st_uid) && (index.st_mode & S_IWOTH) == 0;
}

namespace {

constexpr std::size_t kShardTailBytes = std::string_view("-00001-of-00002.safetensors").size();

// Removes leading characters that belong to a set, and returns their number.
std::size_t skip(std::string_view& text, std::string_view belonging) {
  const std::size_t count = std::min(text.find_first_not_of(belonging), text.size());
  text.remove_prefix(count);
  return count;
}

// Removes a leading word, and returns whether there was one.
bool skip_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

std::string temporary_base_name(const std::string& base_name) { return temporary_name_for(base_name, kShardTailBytes); }

// BASE[.tmp-HHHHHHHH]-00001-of-00002.safetensors, with at least five digits and exactly eight hexadecimal ones. Of a
// long BASE, temporary names have only the beginning.
bool is_shard_file_name(std::string_view name, std::string_view base_name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::size_t kDigitsMin = 5, kIdDigits = 8;
  // A longer name is not that of a file.
  if (name.size() > NAME_MAX) return false;
  const std::string_view short_base = shortened_name(base_name, kTemporaryTailBytes + kShardTailBytes);
  const bool is_whole = skip_word(name, base_name);
  if (!is_whole && (!skip_word(name, short_base) || !name.starts_with(".tmp-"))) return false;
  if (skip_word(name, ".tmp-") && skip(name, "0123456789abcdef") != kIdDigits) return false;
  return skip_word(name, "-") && skip(name, kDigits) >= kDigitsMin && skip_word(name, "-of-") &&
         skip(name, kDigits) >= kDigitsMin && name == ".safetensors";
}

}  // namespace tzmark::safetensors
