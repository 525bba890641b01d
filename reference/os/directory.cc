// System calls that take an open directory and a name in it.
#include "os/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <span>

#include "io/url.h"
#include "os/attributes.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

Descriptor open_at(int directory, const std::string& name, int flags, mode_t mode = 0) {
  return Descriptor(uninterrupted([&] { return ::openat(directory, name.c_str(), flags | O_CLOEXEC, mode); }));
}

// A directory that may not be listed may still be written to: it is opened for everything but listing and syncing.
Descriptor open_directory_at(int directory, const std::string& name, int flags = 0) {
  Descriptor opened = open_at(directory, name, flags | O_RDONLY | O_DIRECTORY);
  if (opened.get() < 0 && errno == EACCES) opened = open_at(directory, name, flags | O_PATH | O_DIRECTORY);
  return opened;
}

Descriptor require_open(Descriptor directory, const std::string& path, ErrorCode code = ErrorCode::kOpenFailed) {
  if (directory.get() < 0) throw_errno(code, fmt::format("{}: cannot open the directory", path));
  return directory;
}

// A name that is too long to be looked up belongs to no entry.
bool is_missing(int error_number) { return error_number == ENOENT || error_number == ENAMETOOLONG; }

std::string path_of_descriptor(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

const std::string& local_name(const std::string& name) {
  require_local(name);
  return name;
}

EntryKind kind_of(mode_t mode) {
  if (S_ISREG(mode)) return EntryKind::kFile;
  if (S_ISDIR(mode)) return EntryKind::kDirectory;
  return S_ISLNK(mode) ? EntryKind::kLink : EntryKind::kOther;
}

}  // namespace

Directory::Directory(const std::string& name)
    : name_(local_name(name)),
      descriptor_(require_open(open_directory_at(AT_FDCWD, name.empty() ? "." : name), name)) {}

Directory Directory::of(const std::string& file_name) {
  require_local(file_name);
  return Directory(std::filesystem::path(file_name).parent_path().string());
}

Directory Directory::again() const { return {name_, require_open(open_directory_at(get(), "."), name_)}; }

std::string Directory::path(const std::string& entry) const {
  return name_.empty() || name_.ends_with('/') ? name_ + entry : name_ + '/' + entry;
}

std::vector<DirectoryEntry> Directory::list() const {
  Directory listed = again();
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(listed.get()), ::closedir);
  if (!directory) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot list the directory", name_));
  static_cast<void>(listed.descriptor_.release());
  std::vector<DirectoryEntry> entries;
  for (;;) {
    errno = 0;
    const dirent* const found = ::readdir(directory.get());
    if (found == nullptr && errno != 0) {
      throw_errno(ErrorCode::kReadFailed, fmt::format("{}: cannot list the directory", name_));
    }
    if (found == nullptr) break;
    const std::string entry = found->d_name;
    if (entry == "." || entry == "..") continue;
    // It may have been removed since.
    const EntryKind entry_kind = kind(entry);
    if (entry_kind != EntryKind::kNone) entries.push_back({entry, entry_kind});
  }
  std::ranges::sort(entries, {}, &DirectoryEntry::name);
  return entries;
}

EntryKind Directory::kind(const std::string& entry) const {
  struct stat status {};
  if (::fstatat(get(), entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return kind_of(status.st_mode);
  if (is_missing(errno)) return EntryKind::kNone;
  throw_errno(code_of_failed_lookup(), fmt::format("{}: cannot read its status", path(entry)));
}

bool Directory::is_name_of(const std::string& entry, int fd) const {
  const struct stat own = status_of(fd);
  struct stat named {};
  if (::fstatat(get(), entry.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0) {
    return own.st_dev == named.st_dev && own.st_ino == named.st_ino;
  }
  if (is_missing(errno)) return false;
  throw_errno(code_of_failed_lookup(), fmt::format("{}: cannot read its status", path(entry)));
}

Descriptor Directory::open_file(const std::string& entry, int flags, Links links) const {
  return open_at(get(), entry, flags | O_NONBLOCK | O_NOCTTY | (links == Links::kRefuse ? O_NOFOLLOW : 0));
}

Descriptor Directory::open_file_or_create(const std::string& entry, mode_t mode) const {
  return open_at(get(), entry, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode);
}

Descriptor Directory::create(const std::string& entry, mode_t mode) const {
  Descriptor created = open_at(get(), entry, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
  if (created.get() < 0) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot create", path(entry)));
  return created;
}

std::unique_ptr<File> Directory::create_file(const std::string& entry, std::string_view io_path) const {
  const Descriptor created = create(entry, 0666);
  try {
    return with_context(path(entry),
                        [&] { return tzmark::open_file(duplicate(created), path(entry), OpenMode::kCreate, io_path); });
  } catch (const Error&) {
    if (is_name_of(entry, created.get())) remove_file(entry);
    throw;
  }
}

Descriptor Directory::create_without_name(mode_t mode) const {
  Descriptor created = open_at(get(), ".", O_RDWR | O_TMPFILE, mode);
  struct stat status {};
  if (created.get() >= 0 && ::lstat(path_of_descriptor(created.get()).c_str(), &status) != 0) return Descriptor();
  return created;
}

bool Directory::give_name(int fd, const std::string& entry) const {
  return ::linkat(AT_FDCWD, path_of_descriptor(fd).c_str(), get(), entry.c_str(), AT_SYMLINK_FOLLOW) == 0;
}

bool Directory::can_give_name(int fd, const std::string& entry) const {
  if (!give_name(fd, entry)) {
    if (is_link_unsupported(errno)) return false;
    throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot give a file this name", path(entry)));
  }
  remove_file(entry);
  return true;
}

Descriptor Directory::open_regular(const std::string& entry) const {
  Descriptor file = open_file(entry, O_RDONLY);
  if (file.get() < 0) throw_errno(code_of_failed_lookup(), fmt::format("{}: cannot open", path(entry)));
  const struct stat status = with_context(path(entry), [&] { return status_of(file.get()); });
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kOpenFailed, fmt::format("{}: not a regular file", path(entry)));
  }
  return file;
}

std::unique_ptr<File> Directory::read_file(const std::string& entry, std::string_view io_path) const {
  Descriptor file = open_regular(entry);
  return with_context(path(entry),
                      [&] { return tzmark::open_file(std::move(file), path(entry), OpenMode::kRead, io_path); });
}

void Directory::forget_cached(const std::string& entry) const {
  // If it is refused, the cache answers.
  static_cast<void>(::posix_fadvise(open_regular(entry).get(), 0, 0, POSIX_FADV_DONTNEED));
}

bool Directory::make_directory(const std::string& entry, mode_t mode) const {
  if (::mkdirat(get(), entry.c_str(), mode) == 0) return true;
  const int error_number = errno;
  struct stat status {};
  if (error_number == EEXIST && ::fstatat(get(), entry.c_str(), &status, 0) == 0 && S_ISDIR(status.st_mode)) {
    return false;
  }
  errno = error_number;
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot make the directory", path(entry)));
}

Directory Directory::open_directory(const std::string& entry) const {
  Descriptor opened = open_directory_at(get(), entry, O_NOFOLLOW);
  return {path(entry), require_open(std::move(opened), path(entry), code_of_failed_lookup())};
}

// Returns nothing if another kind of entry has taken its name, or if this user may not open it for locking.
std::optional<Directory> Directory::open_lockable(const std::string& entry) const {
  Descriptor opened = open_at(get(), entry, O_NOFOLLOW | O_RDONLY | O_DIRECTORY);
  const bool is_refused = errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EACCES;
  if (opened.get() < 0 && is_refused) return std::nullopt;
  return Directory(path(entry), require_open(std::move(opened), path(entry)));
}

bool Directory::gets_lock(Lock lock) {
  lock_ = FileLock(get(), lock);
  if (lock_.is_held()) return true;
  if (errno == EWOULDBLOCK) return false;
  throw_errno(ErrorCode::kUnavailable, fmt::format("{}: cannot lock the directory", name_));
}

std::optional<Directory> Directory::lock_directory(const std::string& entry, Lock lock) const {
  std::optional<Directory> locked = open_lockable(entry);
  // The previous holder may have removed or renamed it.
  if (!locked || !locked->gets_lock(lock) || !is_name_of(entry, locked->get())) return std::nullopt;
  return locked;
}

std::optional<Directory> Directory::lock_or_open_directory(const std::string& entry) const {
  std::optional<Directory> opened = open_lockable(entry);
  if (opened) static_cast<void>(opened->gets_lock(Lock::kShared));
  if (!opened || !is_name_of(entry, opened->get())) return std::nullopt;
  return opened;
}

bool Directory::change_mode(mode_t mode) const {
  // A file system without permissions gives all directories the same, and refuses to change them.
  if (mode == (status_of(get()).st_mode & 07777) || ::fchmod(get(), mode) == 0) return true;
  if (is_unsupported(errno) || errno == EPERM) return false;
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot change its permissions", name_));
}

bool Directory::close_to_others() const {
  // Without S_ISGID, what is made in it would get another group.
  return change_mode(S_IRWXU | (status_of(get()).st_mode & S_ISGID));
}

bool Directory::give_mode_of(const std::string& entry) const {
  struct stat status {};
  if (::fstatat(get(), entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) return change_mode(status.st_mode & 07777);
  throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot read its status", path(entry)));
}

bool Directory::is_open_to_others(const std::string& entry) const {
  struct stat status {};
  return ::fstatat(get(), entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         (status.st_mode & (S_IRGRP | S_IROTH)) != 0;
}

void Directory::rename(const std::string& from, const Directory& to_directory, const std::string& to) const {
  if (try_rename(from, to_directory, to)) return;
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it to {}", path(from), to_directory.path(to)));
}

void Directory::rename_no_replace(const std::string& from, const std::string& to) const {
  if (try_rename_no_replace(from, to)) return;
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it to {}", path(from), path(to)));
}

void Directory::rename_file_no_replace(const std::string& from, const std::string& to) const {
  if (::renameat2(get(), from.c_str(), get(), to.c_str(), RENAME_NOREPLACE) == 0) return;
  if (is_unsupported(errno)) {
    errno = EEXIST;
    if (kind(to) == EntryKind::kNone && try_rename(from, to)) return;
  }
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it to {}", path(from), path(to)));
}

bool Directory::try_rename(const std::string& from, const Directory& to_directory, const std::string& to) const {
  return ::renameat(get(), from.c_str(), to_directory.get(), to.c_str()) == 0;
}

bool Directory::try_rename_no_replace(const std::string& from, const std::string& to) const {
  if (::renameat2(get(), from.c_str(), get(), to.c_str(), RENAME_NOREPLACE) == 0) return true;
  if (!is_unsupported(errno)) return false;
  // A directory replaces an empty directory at most.
  if (kind(from) == EntryKind::kDirectory) return try_rename(from, to);
  if (try_link(from, to)) {
    if (::unlinkat(get(), from.c_str(), 0) == 0) return true;
    const int error_number = errno;
    ::unlinkat(get(), to.c_str(), 0);
    errno = error_number;
    return false;
  }
  if (is_link_unsupported(errno)) errno = EOPNOTSUPP;
  return false;
}

bool Directory::try_exchange(const std::string& a, const std::string& b) const {
  return ::renameat2(get(), a.c_str(), get(), b.c_str(), RENAME_EXCHANGE) == 0;
}

bool Directory::try_link(const std::string& from, const std::string& to) const {
  return ::linkat(get(), from.c_str(), get(), to.c_str(), 0) == 0;
}

bool Directory::remove_file(const std::string& entry) const {
  if (::unlinkat(get(), entry.c_str(), 0) == 0) return true;
  if (is_missing(errno)) return false;
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot remove it", path(entry)));
}

bool Directory::remove_directory(const std::string& entry) const {
  if (::unlinkat(get(), entry.c_str(), AT_REMOVEDIR) == 0) return true;
  if (is_missing(errno)) return false;
  throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot remove it", path(entry)));
}

bool Directory::sync() const {
  if (try_sync_descriptor(get())) return true;
  // EBADF: opened without the right to read it. Other errors say that something was lost.
  if (is_unsupported(errno) || errno == EBADF) return false;
  throw_errno(ErrorCode::kSyncFailed, fmt::format("{}: fsync", name_.empty() ? "." : name_));
}

void Directory::require_sync() const {
  if (sync()) return;
  throw Error(ErrorCode::kUnavailable, fmt::format("{}: durability is required, and {}", name_.empty() ? "." : name_,
                                                   why_name_is_not_durable()));
}

std::string_view why_name_is_not_durable() {
  return "the name cannot be made durable here (no fsync of this directory): a loss of power may undo the change";
}

std::string name_in_directory(const std::string& file_name) {
  return std::filesystem::path(file_name).filename().string();
}

bool is_unsupported(int error_number) {
  return error_number == EINVAL || error_number == ENOSYS || error_number == EOPNOTSUPP;
}

// vfat answers EPERM, security policies EACCES, others EMLINK.
bool is_link_unsupported(int error_number) {
  return is_unsupported(error_number) || error_number == EPERM || error_number == EACCES || error_number == EMLINK;
}

std::string read_small_file(const Directory& directory, const std::string& entry, std::uint64_t bytes_max) {
  const auto file = directory.read_file(entry, "pwrite");
  return with_context(directory.path(entry), [&] {
    if (file->size() > bytes_max) {
      throw Error(ErrorCode::kResource, fmt::format("{} bytes; at most {} are read", file->size(), bytes_max));
    }
    std::string content(static_cast<std::size_t>(file->size()), '\0');
    file->read_at(0, std::as_writable_bytes(std::span(content)));
    return content;
  });
}

void write_small_file(const Directory& directory, const std::string& entry, std::string_view content) {
  const auto file = directory.create_file(entry, "pwrite");
  with_context(directory.path(entry), [&] {
    file->write_at(0, std::as_bytes(std::span(content)));
    file->sync();
  });
}

}  // namespace tzmark
