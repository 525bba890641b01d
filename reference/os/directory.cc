// Calls that take an open directory and a name in it.
#include "os/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "tzmark/error.h"

namespace tzmark {
namespace {

std::string path_of_descriptor(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

}  // namespace

Directory::Directory(const std::string& name)
    : descriptor_(::open(name.empty() ? "." : name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  if (descriptor_.get() < 0) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot open the directory", name));
}

Directory Directory::of(const std::string& file_name) {
  return Directory(std::filesystem::path(file_name).parent_path().string());
}

Descriptor Directory::open_file(const std::string& name, int flags, mode_t mode) const {
  int fd = -1;
  do {
    fd = ::openat(get(), name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, mode);
  } while (fd < 0 && errno == EINTR);
  return Descriptor(fd);
}

Descriptor Directory::create_without_name(mode_t mode) const {
  Descriptor opened(::openat(get(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, mode));
  struct stat status {};
  if (opened.get() >= 0 && ::lstat(path_of_descriptor(opened.get()).c_str(), &status) != 0) return Descriptor();
  return opened;
}

bool Directory::give_name(int fd, const std::string& name) const {
  return ::linkat(AT_FDCWD, path_of_descriptor(fd).c_str(), get(), name.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

bool Directory::has(const std::string& name) const {
  struct stat status {};
  if (::fstatat(get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return true;
  // A name that is too long to be looked up belongs to no file.
  if (errno == ENOENT || errno == ENAMETOOLONG) return false;
  throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot ask what it is", name));
}

bool Directory::is_name_of(const std::string& name, int fd) const {
  struct stat own {};
  struct stat named {};
  return ::fstat(fd, &own) == 0 && ::fstatat(get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         own.st_dev == named.st_dev && own.st_ino == named.st_ino;
}

void Directory::rename_file(const std::string& from, const std::string& to) const {
  if (::renameat(get(), from.c_str(), get(), to.c_str()) == 0) return;
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it to {}", from, to));
}

bool Directory::remove_file(const std::string& name) const {
  if (::unlinkat(get(), name.c_str(), 0) == 0) return true;
  if (errno == ENOENT || errno == ENAMETOOLONG) return false;
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot remove it", name));
}

void Directory::sync() const { sync_descriptor(get()); }

std::string name_in_directory(const std::string& file_name) {
  return std::filesystem::path(file_name).filename().string();
}

}  // namespace tzmark
