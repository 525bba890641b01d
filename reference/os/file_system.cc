// The system's own directories, and small things that are done with any file system.
#include "tzmark/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <span>

#include "io/paths.h"

namespace tzmark {
namespace {

// whole_name: for messages.
EntryKind kind_at(int parent, const std::string& name, const std::string& whole_name) {
  struct stat status {};
  if (::fstatat(parent, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return EntryKind::kNone;
    throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot ask what it is", whole_name));
  }
  if (S_ISREG(status.st_mode)) return EntryKind::kFile;
  return S_ISDIR(status.st_mode) ? EntryKind::kDirectory : EntryKind::kOther;
}

Descriptor open_directory_at(int parent, const std::string& name, int flags) {
  return Descriptor(::openat(parent, name.c_str(), flags | O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

Descriptor open_directory_or_throw(const std::string& name, ErrorCode code) {
  Descriptor directory = open_directory_at(AT_FDCWD, name, 0);
  if (directory.get() < 0) throw_errno(code, fmt::format("{}: cannot open the directory", name));
  return directory;
}

// A lock is with the open directory, whatever its name is: the kernel releases it when the last descriptor is closed,
// also that of a process that was killed.
class SystemDirectory final : public OpenDirectory {
 public:
  SystemDirectory(std::string name, Descriptor directory) : name_(std::move(name)), directory_(std::move(directory)) {}

  const std::string& name() const override { return name_; }

  std::vector<DirectoryEntry> list() override {
    // Each listing needs a position of its own.
    Descriptor again = open_directory_at(directory_.get(), ".", 0);
    if (again.get() < 0) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot open the directory", name_));
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::fdopendir(again.get()), ::closedir);
    if (!directory) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot list it", name_));
    static_cast<void>(again.release());
    std::vector<DirectoryEntry> entries;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(directory.get());
      if (entry == nullptr && errno != 0) throw_errno(ErrorCode::kReadFailed, fmt::format("{}: cannot list it", name_));
      if (entry == nullptr) break;
      const std::string entry_name = entry->d_name;
      if (entry_name == "." || entry_name == "..") continue;
      // One that has gone since is none of its entries.
      const EntryKind entry_kind = kind(entry_name);
      if (entry_kind != EntryKind::kNone) entries.push_back({entry_name, entry_kind});
    }
    std::ranges::sort(entries, {}, &DirectoryEntry::name);
    return entries;
  }

  EntryKind kind(const std::string& name) override { return kind_at(directory_.get(), name, path(name)); }

  std::unique_ptr<OpenDirectory> open_directory(const std::string& name) override {
    Descriptor directory = open_directory_at(directory_.get(), name, O_NOFOLLOW);
    if (directory.get() < 0) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot open it", path(name)));
    return std::make_unique<SystemDirectory>(path(name), std::move(directory));
  }

  std::unique_ptr<File> read_file(const std::string& name, std::string_view io_path) override {
    return about(path(name), [&] { return open_file(open_regular(name), path(name), OpenMode::kRead, io_path); });
  }

  void forget_cached(const std::string& name) override {
    // A refusal only means that the cache answers.
    static_cast<void>(
        ::posix_fadvise(about(path(name), [&] { return open_regular(name); }).get(), 0, 0, POSIX_FADV_DONTNEED));
  }

  void remove_file(const std::string& name) override { remove(name, 0); }
  void remove_directory(const std::string& name) override { remove(name, AT_REMOVEDIR); }

 private:
  std::string path(const std::string& name) const { return fmt::format("{}/{}", name_, name); }

  Descriptor open_regular(const std::string& name) const {
    Descriptor file(::openat(directory_.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (file.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot open");
    struct stat status {};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
      throw Error(ErrorCode::kOpenFailed, "not a regular file");
    }
    return file;
  }

  void remove(const std::string& name, int flags) const {
    if (::unlinkat(directory_.get(), name.c_str(), flags) != 0) {
      throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot remove it", path(name)));
    }
  }

  const std::string name_;
  const Descriptor directory_;
};

class SystemFiles final : public FileSystem {
 public:
  std::unique_ptr<File> create_file(const std::string& name, std::string_view io_path) override {
    return about(name, [&] { return open_file(name, OpenMode::kCreate, io_path); });
  }

  bool make_directory(const std::string& name) override {
    if (::mkdir(name.c_str(), 0777) == 0) return true;
    const int error = errno;
    if (error == EEXIST && kind(name + "/") == EntryKind::kDirectory) return false;  // or a link to one
    errno = error;
    throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot make the directory", name));
  }

  void sync_directory(const std::string& name) override {
    const Descriptor directory = open_directory_or_throw(name, ErrorCode::kSyncFailed);
    about(name, [&] { sync_descriptor(directory.get()); });
  }

  void rename_directory(const std::string& from, const std::string& to) override {
    int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
    // Where the flag is not known, an ordinary rename keeps the promise too: a directory takes the place of an empty
    // directory at most.
    if (result != 0 && (errno == EINVAL || errno == ENOSYS)) result = ::rename(from.c_str(), to.c_str());
    if (result != 0) throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it to {}", from, to));
  }

  void replace_file(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot rename it to {}", from, to));
    }
  }

  void exchange(const std::string& a, const std::string& b) override {
    if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return;
    const bool lacking = errno == EINVAL || errno == ENOSYS;
    throw_errno(lacking ? ErrorCode::kUnavailable : ErrorCode::kWriteFailed,
                fmt::format("{}: cannot change names with {}", a, b));
  }

  void remove_directory(const std::string& name) override {
    if (::rmdir(name.c_str()) != 0) throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot remove it", name));
  }

  EntryKind kind(const std::string& name) override { return kind_at(AT_FDCWD, name, name); }

  std::unique_ptr<OpenDirectory> open_directory(const std::string& name) override {
    return std::make_unique<SystemDirectory>(name, open_directory_or_throw(name, ErrorCode::kOpenFailed));
  }
  std::unique_ptr<OpenDirectory> lock_shared(const std::string& name) override { return lock(name, LOCK_SH); }
  std::unique_ptr<OpenDirectory> lock_alone(const std::string& name) override { return lock(name, LOCK_EX); }

 private:
  static std::unique_ptr<OpenDirectory> lock(const std::string& name, int operation) {
    Descriptor directory = open_directory_at(AT_FDCWD, name, O_NOFOLLOW);
    // The last two: another kind of entry has taken its name.
    if (directory.get() < 0 && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) return nullptr;
    if (directory.get() < 0) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot open the directory", name));
    if (::flock(directory.get(), operation | LOCK_NB) != 0) {
      if (errno == EWOULDBLOCK) return nullptr;
      throw_errno(ErrorCode::kUnavailable, fmt::format("{}: cannot lock the directory", name));
    }
    // Whoever held the lock until now may have removed or renamed it.
    struct stat own {
    }, named{};
    const bool is_named = ::fstat(directory.get(), &own) == 0 && ::lstat(name.c_str(), &named) == 0 &&
                          own.st_ino == named.st_ino && own.st_dev == named.st_dev;
    if (!is_named) return nullptr;
    return std::make_unique<SystemDirectory>(name, std::move(directory));
  }
};

}  // namespace

std::shared_ptr<FileSystem> system_file_system() {
  static const auto system = std::make_shared<SystemFiles>();
  return system;
}

std::string read_small_file(OpenDirectory& directory, const std::string& name, std::uint64_t bytes_max) {
  const auto file = directory.read_file(name, "pwrite");
  return about(fmt::format("{}/{}", directory.name(), name), [&] {
    if (file->size() > bytes_max) {
      throw Error(ErrorCode::kResource, fmt::format("{} bytes; at most {} are read", file->size(), bytes_max));
    }
    std::string content(static_cast<std::size_t>(file->size()), '\0');
    file->read_at(0, std::as_writable_bytes(std::span(content)));
    return content;
  });
}

void write_small_file(FileSystem& files, const std::string& name, std::string_view content) {
  const auto file = files.create_file(name, "pwrite");
  about(name, [&] {
    file->write_at(0, std::as_bytes(std::span(content)));
    file->sync();
  });
}

}  // namespace tzmark
