// A directory that an implementation under test has written to; see directory_tree.h.
#include "runner/directory_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

// What a file costs besides its content. It bounds the number of files too.
constexpr std::uint64_t kEntryLeastBytes = 4096;
constexpr std::uint64_t kStatBlockBytes = 512;

// Smaller files are not worth a write to the disk.
constexpr std::uint64_t kSettledLeastBytes = 1 << 20;

using Listing = std::unique_ptr<DIR, int (*)(DIR*)>;

// Nothing if there is no such directory. A link to one is none.
Listing open_listing(int parent, const char* name) {
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  Listing listing(fd < 0 ? nullptr : ::fdopendir(fd), &::closedir);
  if (!listing && fd >= 0) ::close(fd);
  return listing;
}

const char* next_name(DIR* listing) {
  while (const dirent* const entry = ::readdir(listing)) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") return entry->d_name;
  }
  return nullptr;
}

// The same, of a directory that may forbid its owner to list it: that is allowed again.
Listing open_forbidden_listing(int parent, const char* name) {
  Listing listing = open_listing(parent, name);
  if (listing || errno != EACCES) return listing;
  [[maybe_unused]] const int ignored = ::fchmodat(parent, name, S_IRWXU, AT_SYMLINK_NOFOLLOW);
  return open_listing(parent, name);
}

// Looks at what is in a listed directory, whose owner may have no right to do so: that is given back.
bool look_at(int directory, const char* name, struct stat& status) {
  if (::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0) return true;
  if (errno != EACCES || ::fchmod(directory, S_IRWXU) != 0) return false;
  return ::fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
}

std::uint64_t disk_bytes(const struct stat& status) {
  return static_cast<std::uint64_t>(status.st_blocks) * kStatBlockBytes;
}

// Calls visit(directory, name, status) for what is in the directory and in directories below it, until it returns
// false. Returns false where directories are nested deeper than kDirectoryDepthMax, or cannot be listed.
template <typename Visit>
bool look_below(const std::filesystem::path& directory, Visit visit) {
  std::vector<Listing> open;
  open.push_back(open_forbidden_listing(AT_FDCWD, directory.c_str()));
  if (!open.back() && errno == EACCES) return false;
  while (!open.empty()) {
    DIR* const listing = open.back().get();
    const char* const name = listing ? next_name(listing) : nullptr;
    if (!name) {
      open.pop_back();
      continue;
    }
    struct stat status {};
    if (!look_at(::dirfd(listing), name, status)) {
      if (errno == EACCES) return false;
      continue;
    }
    if (!visit(::dirfd(listing), name, status)) return true;
    if (!S_ISDIR(status.st_mode)) continue;
    if (open.size() > kDirectoryDepthMax) return false;
    open.push_back(open_forbidden_listing(::dirfd(listing), name));
    if (!open.back() && errno == EACCES) return false;
  }
  return true;
}

}  // namespace

std::uint64_t disk_bytes_below(const std::filesystem::path& directory, std::uint64_t enough_bytes) {
  std::uint64_t bytes = 0;
  const bool whole = look_below(directory, [&](int, const char*, const struct stat& status) {
    bytes += std::max(kEntryLeastBytes, disk_bytes(status));
    return bytes <= enough_bytes;
  });
  return whole ? bytes : kTooDeep;
}

void settle_files_below(const std::filesystem::path& directory) {
  look_below(directory, [](int parent, const char* name, const struct stat& status) {
    const auto size_bytes = static_cast<std::uint64_t>(status.st_size);
    if (!S_ISREG(status.st_mode) || size_bytes < kSettledLeastBytes || disk_bytes(status) >= size_bytes) return true;
    // Should another file have come in its place, opening it must not wait.
    const int fd = ::openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return true;
    ::fdatasync(fd);
    ::close(fd);
    return true;
  });
}

}  // namespace tzmark::conformance
