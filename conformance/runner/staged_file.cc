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

namespace tzmark::conformance {

namespace {

thread_local std::unique_ptr<ScratchFolder> spare_folder;

// Random: a number that counts would tell which case it is, for the cases come in the order of the manifest.
std::string neutral_name(std::string_view suffix) {
  thread_local std::random_device random;
  return fmt::format("{:08x}{:08x}{}", random(), random(), suffix);
}

}  // namespace

StagedFile::StagedFile(std::span<const std::byte> content, std::string_view suffix)
    : folder_(spare_folder ? std::move(spare_folder) : std::make_unique<ScratchFolder>()),
      path_(folder_->path() / neutral_name(suffix)) {
  write_file(path_, model::text_of(content));
}

StagedFile::~StagedFile() {
  ::unlink(path_.c_str());
  if (folder_->is_as_made()) spare_folder = std::move(folder_);
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
