// A file that an adapter is asked about; see staged_file.h.
#include "runner/staged_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>
#include <system_error>
#include <utility>

#include "runner/descriptor.h"
#include "runner/errors.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

// Random: a number that counts would tell which case it is, for the cases come in the order of the manifest.
std::string neutral_name(std::string_view suffix) {
  thread_local std::random_device random;
  return fmt::format("{:08x}{:08x}{}", random(), random(), suffix);
}

bool write_all(int fd, std::span<const std::byte> content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    content = content.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

StagedFile::StagedFile(const fs::path& folder, std::span<const std::byte> content, std::string_view suffix)
    : path_(folder / neutral_name(suffix)) {
  Descriptor file(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.open() && write_all(file.get(), content)) return;
  const std::string reason = std::strerror(errno);
  if (file.open()) ::unlink(path_.c_str());
  throw EnvironmentError(fmt::format("{}: cannot be written: {}", path_.string(), reason));
}

StagedFile::~StagedFile() { ::unlink(path_.c_str()); }

WatchedFile::WatchedFile(fs::path path, std::string sha256)
    : path_(std::move(path)), sha256_(std::move(sha256)), before_(status()) {}

bool WatchedFile::is_as_before() {
  const Status now = status();
  if (now == before_) return true;
  std::error_code none;
  if (!fs::is_regular_file(fs::symlink_status(path_, none)) || sha256_of_file(path_) != sha256_) return false;
  before_ = now;
  return true;
}

WatchedFile::Status WatchedFile::status() const {
  struct stat file {};
  if (::lstat(path_.c_str(), &file) != 0) return {};
  const auto number = [](auto value) { return static_cast<std::uint64_t>(value); };
  return {number(file.st_dev),         number(file.st_ino),          number(file.st_size),
          number(file.st_mtim.tv_sec), number(file.st_mtim.tv_nsec), number(file.st_ctim.tv_sec),
          number(file.st_ctim.tv_nsec)};
}

}  // namespace tzmark::conformance
