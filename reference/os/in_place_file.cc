// System calls that lock, resize and extend a file.
#include "os/in_place_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <filesystem>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <string_view>
#include <system_error>

#include "os/attributes.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

Descriptor open_named(const Directory& directory, const std::string& name, int flags) {
  Descriptor descriptor = directory.open_file(name, flags);
  if (descriptor.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot open");
  return descriptor;
}

}  // namespace

InPlaceFile::InPlaceFile(std::shared_ptr<const Directory> directory, std::string name, Descriptor descriptor)
    : directory_(std::move(directory)), name_(std::move(name)), descriptor_(std::move(descriptor)) {
  if (!S_ISREG(status_of(get()).st_mode)) {
    throw Error(ErrorCode::kOpenFailed, "only a regular file can be changed in place");
  }
  if (!try_lock(get(), Lock::kAlone)) {
    if (errno == EWOULDBLOCK) throw Error(ErrorCode::kFileLocked, "another process is changing the file");
    throw_errno(ErrorCode::kOpenFailed, "cannot lock");
  }
  // The previous lock holder may have replaced it.
  if (!is_named()) throw Error(ErrorCode::kFileLocked, "another process has just replaced the file");
}

InPlaceFile::InPlaceFile(const std::string& file_name) {
  const std::string resolved = resolved_file_name(file_name, LinksOfOthers::kRefuse);
  auto directory = std::make_shared<const Directory>(Directory::of(resolved));
  std::string name = name_in_directory(resolved);
  Descriptor descriptor = open_named(*directory, name, O_RDWR);
  *this = InPlaceFile(std::move(directory), std::move(name), std::move(descriptor));
}

InPlaceFile InPlaceFile::create_beside(const InPlaceFile& other, std::string name) {
  Descriptor descriptor = other.directory().create(name, 0600);
  return {other.directory_, std::move(name), std::move(descriptor)};
}

std::unique_ptr<File> InPlaceFile::open(std::string_view io_path, OpenMode mode) const {
  Descriptor again = open_named(directory(), name_, mode == OpenMode::kRead ? O_RDONLY : O_RDWR);
  if (!is_same_file(again.get(), get())) {
    throw Error(ErrorCode::kFileLocked, "another process has just replaced the file");
  }
  return open_file(std::move(again), directory().path(name_), mode, io_path);
}

std::uint64_t InPlaceFile::size() const { return static_cast<std::uint64_t>(status_of(get()).st_size); }
std::uint64_t InPlaceFile::name_count() const { return status_of(get()).st_nlink; }
std::uint32_t InPlaceFile::owner() const { return status_of(get()).st_uid; }
bool InPlaceFile::is_named() const { return directory().is_name_of(name_, get()); }

void InPlaceFile::require_named() const {
  if (!is_named()) throw Error(ErrorCode::kFileLocked, "another process has replaced the file");
}

FileIdentity InPlaceFile::identity() const {
  FileIdentity identity{status_of(get()).st_ino};
  struct statx status {};
  // A sandbox may refuse statx; then only the inode is known.
  if (::statx(get(), "", AT_EMPTY_PATH, STATX_BTIME, &status) == 0 && (status.stx_mask & STATX_BTIME) != 0) {
    identity.created_s = status.stx_btime.tv_sec;
    identity.created_ns = status.stx_btime.tv_nsec;
  }
  return identity;
}

void InPlaceFile::resize(std::uint64_t bytes) {
  const int result = uninterrupted([&] { return ::ftruncate(get(), static_cast<off_t>(bytes)); });
  if (result != 0) throw_errno(ErrorCode::kWriteFailed, "ftruncate", bytes);
}

bool InPlaceFile::insert(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t before = size();
  if (offset >= before) {
    // Nothing follows, so nothing moves.
    resize(offset + bytes);
    return true;
  }
  const auto insert_range = [&] {
    return ::fallocate(get(), FALLOC_FL_INSERT_RANGE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  };
  if (uninterrupted(insert_range) == 0) return true;
  // EINVAL: not a multiple of the file system's block size.
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return false;
  throw_errno(ErrorCode::kWriteFailed, "fallocate(FALLOC_FL_INSERT_RANGE)", offset);
}

bool InPlaceFile::give_attributes_to(int fd, unsigned mode_max) const {
  return Attributes::of(get()).give_to(fd, mode_max);
}

void InPlaceFile::replace(const InPlaceFile& other) {
  other.require_named();
  require_named();
  directory().rename(name_, other.name_);
  name_ = other.name_;
}

namespace {

// Returns where a link leads to, an empty path if the entry is none, and nothing if there is no such entry.
std::optional<std::filesystem::path> target_of_link(const std::filesystem::path& name, LinksOfOthers of_others) {
  // A link that is not followed because a device failed would lead to a journal that is not there.
  const auto missing = [&] {
    refuse_failed_lookup(fmt::format("{}: cannot look it up", name.string()));
    return std::nullopt;
  };
  const Descriptor directory(::open(name.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return missing();
  const Descriptor entry(::openat(directory.get(), name.filename().c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
  if (entry.get() < 0) return missing();
  const struct stat link = status_of(entry.get()), place = status_of(directory.get());
  if (!S_ISLNK(link.st_mode)) return std::filesystem::path();
  constexpr mode_t kOpenToAll = S_ISVTX | S_IWOTH;
  if (of_others == LinksOfOthers::kRefuse && (place.st_mode & kOpenToAll) == kOpenToAll && link.st_uid != ::geteuid() &&
      link.st_uid != place.st_uid) {
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("the symbolic link {} belongs to another user, in a directory that is open to all, and may "
                            "lead to any file: give the name of the file itself",
                            name.string()));
  }
  std::array<char, PATH_MAX> target{};
  const ssize_t length = ::readlinkat(entry.get(), "", target.data(), target.size());
  if (length <= 0) return missing();
  return std::filesystem::path(std::string_view(target.data(), static_cast<std::size_t>(length)));
}

}  // namespace

// The kernel's fs.protected_symlinks does the same where it is set, but not for names that a process resolves itself.
std::string resolved_file_name(const std::string& file_name, LinksOfOthers of_others) {
  constexpr unsigned kLinksMax = 40;
  std::error_code failed;
  std::filesystem::path resolved, rest = std::filesystem::absolute(file_name, failed);
  if (failed || !rest.has_filename()) return file_name;
  for (unsigned links = 0; !rest.empty();) {
    const std::filesystem::path part = *rest.begin();
    rest = std::accumulate(std::next(rest.begin()), rest.end(), std::filesystem::path(), std::divides());
    if (part.is_absolute()) resolved = part;
    if (part.is_absolute() || part.empty() || part == ".") continue;
    if (part == "..") {
      resolved = resolved.parent_path();
      continue;
    }
    const auto target = target_of_link(resolved / part, of_others);
    if (!target || (!target->empty() && ++links > kLinksMax)) return file_name;
    if (target->empty()) {
      resolved /= part;
    } else {
      rest = rest.empty() ? *target : *target / rest;
    }
  }
  return resolved;
}

}  // namespace tzmark
