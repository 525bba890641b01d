// System calls that lock, resize and extend a file.
#include "os/in_place_file.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
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
  const std::string resolved = resolved_file_name(file_name);
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

std::string resolved_file_name(const std::string& file_name) {
  std::error_code failed;
  const auto resolved = std::filesystem::canonical(file_name, failed);
  return failed ? file_name : resolved.string();
}

}  // namespace tzmark
