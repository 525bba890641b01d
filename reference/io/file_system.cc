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

EntryKind kind_of(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return EntryKind::kFile;
  return S_ISDIR(status.st_mode) ? EntryKind::kDirectory : EntryKind::kOther;
}

Descriptor open_directory(const std::string& name, ErrorCode code) {
  Descriptor directory(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) throw_errno(code, fmt::format("{}: cannot open the directory", name));
  return directory;
}

// The lock is with the open directory, whatever its name is: the kernel lets go of it when the last descriptor is
// closed, also that of a process that was killed.
class SystemLock final : public DirectoryLock {
 public:
  explicit SystemLock(Descriptor directory) : directory_(std::move(directory)) {}

 private:
  Descriptor directory_;
};

class SystemFiles final : public FileSystem {
 public:
  std::unique_ptr<File> create_file(const std::string& name, std::string_view io_path) override {
    return about(name, [&] { return open_file(name, OpenMode::kCreate, io_path); });
  }
  std::unique_ptr<File> read_file(const std::string& name, std::string_view io_path) override {
    return about(name, [&] { return open_file(name, OpenMode::kRead, io_path); });
  }

  void forget_cached(const std::string& name) override {
    const Descriptor file = about(name, [&] { return open_descriptor(name, OpenMode::kRead); });
    // A refusal only means that the cache answers.
    static_cast<void>(::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED));
  }

  bool make_directory(const std::string& name) override {
    if (::mkdir(name.c_str(), 0777) == 0) return true;
    const int error = errno;
    if (error == EEXIST && kind(name + "/") == EntryKind::kDirectory) return false;  // or a link to one
    errno = error;
    throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot make the directory", name));
  }

  void sync_directory(const std::string& name) override {
    const Descriptor directory = open_directory(name, ErrorCode::kSyncFailed);
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

  void remove_file(const std::string& name) override {
    if (::unlink(name.c_str()) != 0) throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot remove it", name));
  }
  void remove_directory(const std::string& name) override {
    if (::rmdir(name.c_str()) != 0) throw_errno(ErrorCode::kWriteFailed, fmt::format("{}: cannot remove it", name));
  }

  EntryKind kind(const std::string& name) override {
    struct stat status {};
    if (::lstat(name.c_str(), &status) == 0) return kind_of(status);
    if (errno == ENOENT || errno == ENOTDIR) return EntryKind::kNone;
    throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot ask what it is", name));
  }

  std::vector<DirectoryEntry> list(const std::string& name) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(name.c_str()), ::closedir);
    if (!directory) throw_errno(ErrorCode::kOpenFailed, fmt::format("{}: cannot open the directory", name));
    std::vector<DirectoryEntry> entries;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(directory.get());
      if (entry == nullptr && errno != 0) throw_errno(ErrorCode::kReadFailed, fmt::format("{}: cannot list it", name));
      if (entry == nullptr) break;
      const std::string_view entry_name = entry->d_name;
      if (entry_name == "." || entry_name == "..") continue;
      // One that has gone since is none of its entries.
      const EntryKind entry_kind = kind(fmt::format("{}/{}", name, entry_name));
      if (entry_kind != EntryKind::kNone) entries.push_back({std::string(entry_name), entry_kind});
    }
    std::ranges::sort(entries, {}, &DirectoryEntry::name);
    return entries;
  }

  std::unique_ptr<DirectoryLock> lock_shared(const std::string& name) override { return lock(name, LOCK_SH); }
  std::unique_ptr<DirectoryLock> lock_alone(const std::string& name) override { return lock(name, LOCK_EX); }

 private:
  static std::unique_ptr<DirectoryLock> lock(const std::string& name, int operation) {
    Descriptor directory(::open(name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0 && errno == ENOENT) return nullptr;
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
    return std::make_unique<SystemLock>(std::move(directory));
  }
};

}  // namespace

std::shared_ptr<FileSystem> system_file_system() {
  static const auto system = std::make_shared<SystemFiles>();
  return system;
}

std::string read_small_file(FileSystem& files, const std::string& name, std::uint64_t bytes_max) {
  const auto file = files.read_file(name, "pwrite");
  if (file->size() > bytes_max) {
    throw Error(ErrorCode::kResource, fmt::format("{}: {} bytes; at most {} are read", name, file->size(), bytes_max));
  }
  std::string content(static_cast<std::size_t>(file->size()), '\0');
  about(name, [&] { file->read_at(0, std::as_writable_bytes(std::span(content))); });
  return content;
}

void write_small_file(FileSystem& files, const std::string& name, std::string_view content) {
  const auto file = files.create_file(name, "pwrite");
  about(name, [&] {
    file->write_at(0, std::as_bytes(std::span(content)));
    file->sync();
  });
}

void remove_tree(FileSystem& files, const std::string& name) {
  for (const DirectoryEntry& entry : files.list(name)) {
    const std::string entry_name = fmt::format("{}/{}", name, entry.name);
    if (entry.kind == EntryKind::kDirectory) {
      remove_tree(files, entry_name);
    } else {
      files.remove_file(entry_name);
    }
  }
  files.remove_directory(name);
}

}  // namespace tzmark
