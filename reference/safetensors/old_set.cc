// Reading the index of a model that is about to be replaced.
#include "safetensors/old_set.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <climits>

#include "bytes/cursor.h"
#include "safetensors/shard_index.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::safetensors {

std::optional<FileNames> files_of_index(const Directory& directory, const std::string& index_name) {
  // A symbolic link is followed: what it leads to names files of this folder.
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
    // A damaged model may be replaced as any other.
    return std::nullopt;
  }
}

namespace {

// Takes the characters that belong from the front of a text, and returns how many these were.
std::size_t skip(std::string_view& text, std::string_view belonging) {
  const std::size_t count = std::min(text.find_first_not_of(belonging), text.size());
  text.remove_prefix(count);
  return count;
}

// Takes a word from the front of a text, if it is there.
bool skip_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

}  // namespace

// BASE[.tmp-HHHHHHHH]-00001-of-00002.safetensors, with at least five digits and exactly eight hexadecimal ones.
bool is_shard_file_name(std::string_view name, std::string_view base_name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr std::size_t kDigitsMin = 5, kIdDigits = 8;
  // What is longer is no name of a file.
  if (name.size() > NAME_MAX || !skip_word(name, base_name)) return false;
  if (skip_word(name, ".tmp-") && skip(name, "0123456789abcdef") != kIdDigits) return false;
  return skip_word(name, "-") && skip(name, kDigits) >= kDigitsMin && skip_word(name, "-of-") &&
         skip(name, kDigits) >= kDigitsMin && name == ".safetensors";
}

}  // namespace tzmark::safetensors
