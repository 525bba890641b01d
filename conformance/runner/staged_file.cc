// A file that an adapter is asked about; see staged_file.h.
#include "runner/staged_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <random>
#include <string>
#include <utility>

#include "model/text.h"
#include "runner/descriptor.h"
#include "runner/file_content.h"
#include "runner/json.h"

namespace tzmark::conformance {

namespace {

// What the last file of the thread has left.
struct Spare {
  std::unique_ptr<ScratchDirectory> directory;
  std::filesystem::path path;  // of a file in it
  std::string suffix;
};
thread_local Spare spare;

// Random: a number that counts would tell which case it is, for the cases come in the order of the manifest.
std::string neutral_name(std::string_view suffix) {
  thread_local std::random_device random;
  return fmt::format("{:08x}{:08x}{}", random(), random(), suffix);
}

// The content with a path in the place of the placeholder, as the text of a JSON string.
std::string with_path(std::span<const std::byte> content, std::string_view placeholder,
                      const std::filesystem::path& path) {
  std::string text(model::text_of(content));
  const std::size_t at = text.find(placeholder);
  if (at == text.npos) return text;
  const std::string quoted = dump_line(path.string());
  return text.replace(at, placeholder.size(), quoted, 1, quoted.size() - 2);
}

}  // namespace

StagedFile::StagedFile(std::span<const std::byte> content, std::string_view suffix, std::vector<Shard> shards,
                       std::string_view directory_placeholder)
    : directory_(spare.directory ? std::move(spare.directory)
                                 : std::make_unique<ScratchDirectory>(ScratchDirectory::Place::kCaseRoot)),
      content_(content),
      suffix_(suffix),
      shards_(std::move(shards)) {
  const std::filesystem::path left = std::exchange(spare.path, {});
  const bool is_alike = shards_.empty() && directory_placeholder.empty() && spare.suffix == suffix;
  if (!left.empty() && is_alike && overwrite_file(left, model::text_of(content))) {
    path_ = left;
    return;
  }
  if (!left.empty()) ::unlink(left.c_str());
  path_ = directory_->path();
  // Then what a name leads to above the index is still in the directory of this file.
  if (!shards_.empty()) std::filesystem::create_directory(path_ /= "model");
  for (const Shard& shard : shards_) {
    const std::filesystem::path name = (path_ / shard.name).lexically_normal();
    std::filesystem::create_directories(name.parent_path());
    write_file(name, model::text_of(*shard.content));
  }
  if (!directory_placeholder.empty()) replaced_ = with_path(content, directory_placeholder, path_);
  path_ /= neutral_name(suffix);
  write_file(path_, model::text_of(this->content()));
}

void StagedFile::put(std::span<const std::byte> content) {
  if (overwrite_file(path_, model::text_of(content))) return;
  ::unlink(path_.c_str());
  write_file(path_, model::text_of(content));
}

StagedFile::~StagedFile() {
  if (directory_->holds_only(path_.filename())) spare = {std::move(directory_), std::move(path_), suffix_};
}

bool StagedFile::shards_hold() const {
  return std::ranges::all_of(shards_, [&](const Shard& shard) {
    return holds((path_.parent_path() / shard.name).lexically_normal(), *shard.content);
  });
}

bool holds(const std::filesystem::path& path, std::span<const std::byte> content) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  struct stat status {};
  if (!file.open() || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  if (static_cast<std::uint64_t>(status.st_size) != content.size()) return false;
  std::array<std::byte, 65536> block;
  while (!content.empty()) {
    const ssize_t got = ::read(file.get(), block.data(), std::min(block.size(), content.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    const auto piece = std::span(block).first(static_cast<std::size_t>(got));
    if (!std::ranges::equal(piece, content.first(piece.size()))) return false;
    content = content.subspan(piece.size());
  }
  return true;
}

}  // namespace tzmark::conformance
