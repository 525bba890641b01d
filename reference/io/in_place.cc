// Locking, resizing and cutting open.
#include "io/in_place.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "tzmark/error.h"

namespace tzmark {
namespace {

struct stat status_of(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(ErrorCode::kOpenFailed, "fstat");
  return status;
}

}  // namespace

InPlaceFile::InPlaceFile(const std::string& file_name) : descriptor_(open_descriptor(file_name, OpenMode::kModify)) {
  if (::flock(descriptor_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) throw Error(ErrorCode::kFileLocked, "another process is changing the file");
    throw_errno(ErrorCode::kOpenFailed, "cannot lock");
  }
  // Whoever held the lock until now may have put another file in its place.
  if (!is_named(file_name)) {
    throw Error(ErrorCode::kFileLocked, "another process has just replaced the file");
  }
}

std::uint64_t InPlaceFile::size() const { return descriptor_size(descriptor_.get()); }
std::uint64_t InPlaceFile::file_number() const { return status_of(descriptor_.get()).st_ino; }
std::uint64_t InPlaceFile::name_count() const { return status_of(descriptor_.get()).st_nlink; }

bool InPlaceFile::is_named(const std::string& file_name) const {
  const struct stat own = status_of(descriptor_.get());
  struct stat named {};
  return ::stat(file_name.c_str(), &named) == 0 && named.st_ino == own.st_ino && named.st_dev == own.st_dev;
}

void InPlaceFile::resize(std::uint64_t bytes) {
  int result = 0;
  do {
    result = ::ftruncate(descriptor_.get(), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result != 0) throw_errno(ErrorCode::kWriteFailed, "ftruncate", bytes);
}

bool InPlaceFile::insert(std::uint64_t offset, std::uint64_t bytes) {
  const std::uint64_t before = size();
  if (offset >= before) {
    // Nothing lies behind, so that nothing has to move.
    resize(offset + bytes);
    return true;
  }
  int result = 0;
  do {
    result =
        ::fallocate(descriptor_.get(), FALLOC_FL_INSERT_RANGE, static_cast<off_t>(offset), static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  if (result == 0) return true;
  // EINVAL: not a multiple of the file system's block size.
  if (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL) return false;
  throw_errno(ErrorCode::kWriteFailed, "fallocate(FALLOC_FL_INSERT_RANGE)", offset);
}

void InPlaceFile::take_attributes_of(const InPlaceFile& other) {
  const struct stat status = status_of(other.descriptor_.get());
  // Who may not give files away keeps the new one; the owner comes first, as it may clear bits of the mode.
  if (::fchown(descriptor_.get(), status.st_uid, status.st_gid) != 0 && errno != EPERM) {
    throw_errno(ErrorCode::kWriteFailed, "fchown");
  }
  if (::fchmod(descriptor_.get(), status.st_mode & 07777) != 0) throw_errno(ErrorCode::kWriteFailed, "fchmod");
}

void sync_directory_of(const std::string& file_name) {
  const auto parent = std::filesystem::path(file_name).parent_path();
  const std::string directory_name = parent.empty() ? "." : parent.string();
  const Descriptor directory(::open(directory_name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) throw_errno(ErrorCode::kSyncFailed, "cannot open the directory");
  sync_descriptor(directory.get());
}

}  // namespace tzmark
