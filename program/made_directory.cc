// See program/made_directory.h.
#include "program/made_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <system_error>

#include "program/random_name.h"

namespace tzmark {
namespace {

// Where another directory is mounted: another device, or another mount of the same one.
struct MountOf {
  std::uint32_t device_major = 0, device_minor = 0;
  std::uint64_t mount = 0;

  bool operator==(const MountOf&) const = default;
};

// Returns false and leaves errno set if it cannot be told.
bool tell_mount(int fd, MountOf& mount) {
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &status) == 0) {
    // Linux before 5.8 does not tell the mount.
    mount = {status.stx_dev_major, status.stx_dev_minor, (status.stx_mask & STATX_MNT_ID) != 0 ? status.stx_mnt_id : 0};
    return true;
  }
  struct stat old {};
  if (errno != ENOSYS || ::fstat(fd, &old) != 0) return false;
  mount = {major(old.st_dev), minor(old.st_dev), 0};
  return true;
}

std::int64_t now_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The entries of an open directory, without memory of its own.
class Entries {
 public:
  explicit Entries(int directory) : directory_(directory) { ::lseek(directory, 0, SEEK_SET); }

  // Returns nullptr at the end, and after an error, which error_number tells.
  const char* next() {
    for (;;) {
      if (at_ == length_) {
        length_ = ::syscall(SYS_getdents64, directory_, buffer_.data(), buffer_.size());
        at_ = 0;
        // The directory itself may have been removed.
        if (length_ < 0 && errno != ENOENT) error_number_ = errno;
        if (length_ <= 0) {
          length_ = 0;
          return nullptr;
        }
      }
      const auto* const entry = reinterpret_cast<const dirent64*>(buffer_.data() + at_);
      at_ += entry->d_reclen;
      if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0) return entry->d_name;
    }
  }
  int error_number() const { return error_number_; }

 private:
  int directory_;
  int error_number_ = 0;
  long length_ = 0, at_ = 0;
  alignas(dirent64) std::array<char, 8192> buffer_{};
};

class Removal {
 public:
  Removal(int top, std::chrono::nanoseconds elapsed_max) : top_(top), end_ns_(now_ns() + elapsed_max.count()) {}

  RemovalFailure run() {
    if (!tell_mount(top_, mount_)) return failed(errno, "");
    // Where it may be listed, to change it may still be forbidden.
    ::fchmod(top_, S_IRWXU);
    // Directories in directories are moved up to the top, so each pass finds those of the next depth there.
    for (bool is_empty = false; !is_empty;) {
      is_empty = true;
      Entries entries(top_);
      while (const char* const name = entries.next()) {
        is_empty = false;
        if (now_ns() > end_ns_) return failed(EBUSY, name);
        if (!remove_entry(top_, name) || !remove_with_content(name)) return failure_;
      }
      if (entries.error_number() != 0) return failed(entries.error_number(), "");
    }
    return {};
  }

 private:
  RemovalFailure failed(int error_number, const char* name) {
    failure_.error_number = error_number;
    const std::size_t length = std::min(std::strlen(name), failure_.entry_name.size() - 1);
    std::copy_n(name, length, failure_.entry_name.begin());
    failure_.entry_name[length] = '\0';
    return failure_;
  }

  // Sets is_gone_; it is false for a directory with something in it. Returns false if the entry cannot be removed.
  bool remove_entry(int parent, const char* name) {
    is_gone_ = ::unlinkat(parent, name, 0) == 0 || errno == ENOENT;
    if (is_gone_) return true;
    if (errno == EISDIR || errno == EPERM) {
      is_gone_ = ::unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT;
      if (is_gone_ || errno == ENOTEMPTY || errno == EEXIST) return true;
    }
    failed(errno, name);
    return false;
  }

  // A directory may forbid its owner to look into it, and to change or move it. Where this fails, what follows says so.
  static void let_owner_in(int parent, const char* name) {
    [[maybe_unused]] const int ignored = ::fchmodat(parent, name, S_IRWXU, AT_SYMLINK_NOFOLLOW);
  }

  // Does nothing if the entry is gone. Returns false if something in it cannot be removed.
  bool remove_with_content(const char* name) {
    if (is_gone_) return true;
    let_owner_in(top_, name);
    const int inner = ::openat(top_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner < 0) return failed(errno, name).error_number == 0;
    const bool is_done = empty_inner(inner, name);
    ::close(inner);
    // What the listing missed is still there in the next pass.
    return is_done && remove_entry(top_, name);
  }

  bool empty_inner(int inner, const char* name) {
    MountOf mount;
    if (!tell_mount(inner, mount)) return failed(errno, name).error_number == 0;
    if (mount != mount_) return failed(EXDEV, name).error_number == 0;
    Entries entries(inner);
    while (const char* const inner_name = entries.next()) {
      // What another process still adds is met by the next pass, which looks at the time.
      if (now_ns() > end_ns_) return true;
      if (!remove_entry(inner, inner_name)) return false;
      if (!is_gone_ && !lift(inner, inner_name)) return false;
    }
    return true;
  }

  // Moves a directory to the top, under a name that is free there.
  bool lift(int parent, const char* name) {
    let_owner_in(parent, name);
    for (;;) {
      std::array<char, 32> lifted{"lifted-"};
      std::to_chars(lifted.data() + std::strlen(lifted.data()), lifted.data() + lifted.size() - 1, lifted_++);
      if (::renameat(parent, name, top_, lifted.data()) == 0 || errno == ENOENT) return true;
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return failed(errno, name).error_number == 0;
    }
  }

  int top_;
  std::int64_t end_ns_;
  MountOf mount_;
  bool is_gone_ = false;
  std::uint64_t lifted_ = 0;
  RemovalFailure failure_;
};

[[noreturn]] void throw_error(int error_number, const std::string& what) {
  throw std::system_error(error_number, std::generic_category(), what);
}

// Returns whether a directory belongs to whom files that this program creates belong. A network file system may give
// those of root to another user.
bool is_own(int directory) {
  struct stat status {};
  if (::fstat(directory, &status) != 0) return false;
  if (status.st_uid == ::geteuid()) return true;
  // Other processes may be asking, too.
  const std::string name = random_name("owner-");
  const int file = ::openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return false;
  struct stat created {};
  const bool is_same = ::fstat(file, &created) == 0 && created.st_uid == status.st_uid;
  ::close(file);
  ::unlinkat(directory, name.c_str(), 0);
  return is_same;
}

// Between making and opening it, another program may have put another directory in its place, if it can write to the
// parent. That one has another owner, or something in it that is not ours to remove.
bool is_made_by_us(int directory) { return is_own(directory) && Entries(directory).next() == nullptr; }

}  // namespace

RemovalFailure remove_content(int directory, std::chrono::nanoseconds elapsed_max) noexcept {
  return Removal(directory, elapsed_max).run();
}

int remove_empty(int parent, const char* entry, int directory) noexcept {
  struct stat own {
  }, named{};
  if (::fstat(directory, &own) != 0) return errno;
  if (::fstatat(parent, entry, &named, AT_SYMLINK_NOFOLLOW) != 0) return errno;
  if (own.st_dev != named.st_dev || own.st_ino != named.st_ino) return ESTALE;
  return ::unlinkat(parent, entry, AT_REMOVEDIR) == 0 ? 0 : errno;
}

MadeDirectory::MadeDirectory(const std::filesystem::path& parent, std::string_view prefix) {
  constexpr int kTriesMax = 100;
  parent_ = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent_ < 0) throw_error(errno, parent.string());
  int error_number = EEXIST;
  for (int tries = 0; directory_ < 0 && error_number == EEXIST && tries < kTriesMax; ++tries) {
    entry_ = random_name(prefix);
    path_ = parent / entry_;
    error_number = ::mkdirat(parent_, entry_.c_str(), S_IRWXU) == 0 ? 0 : errno;
  }
  if (error_number == 0) {
    directory_ = ::openat(parent_, entry_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    error_number = directory_ < 0 ? errno : is_made_by_us(directory_) ? 0 : ESTALE;
  }
  if (error_number == 0) return;
  if (directory_ >= 0) ::close(directory_);
  ::close(parent_);
  if (error_number == ESTALE)
    throw_error(error_number, path_.string() + ": another process has replaced the new directory");
  throw_error(error_number, path_.string());
}

MadeDirectory::MadeDirectory(const OfAnother& directory, std::string_view prefix)
    : path_(directory.path), entry_(path_.filename().string()) {
  if (!entry_.starts_with(prefix)) throw_error(EINVAL, path_.string());
  parent_ = ::open(path_.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (parent_ < 0) throw_error(errno, path_.string());
  directory_ = ::openat(parent_, entry_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  const int error_number = directory_ < 0 ? errno : 0;
  if (error_number == 0 && is_own(directory_)) return;
  if (directory_ >= 0) ::close(directory_);
  ::close(parent_);
  if (error_number != 0) throw_error(error_number, path_.string());
  throw_error(ESTALE, path_.string() + ": another user has made it");
}

MadeDirectory::~MadeDirectory() {
  ::close(directory_);
  ::close(parent_);
}

void MadeDirectory::clear(std::chrono::nanoseconds elapsed_max) const {
  const RemovalFailure failure = remove_content(directory_, elapsed_max);
  if (failure.error_number == 0) return;
  const std::filesystem::path at = failure.entry_name[0] == '\0' ? path_ : path_ / failure.entry_name.data();
  throw_error(failure.error_number, at.string() + " cannot be removed");
}

void MadeDirectory::remove(std::chrono::nanoseconds elapsed_max) {
  clear(elapsed_max);
  const int error_number = remove_empty(parent_, entry_.c_str(), directory_);
  if (error_number == 0) return;
  if (error_number == ESTALE || error_number == ENOENT) {
    throw_error(error_number,
                path_.string() + " is empty but not removed: another process has renamed it or removed it");
  }
  throw_error(error_number, path_.string() + " cannot be removed");
}

}  // namespace tzmark
