// System calls around file descriptors.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "io/paths.h"
#include "io/url.h"

namespace tzmark {

std::string error_text(int error_number) {
  std::string text = std::generic_category().message(error_number);
  rlimit limit{};
  if (error_number != EFBIG || ::getrlimit(RLIMIT_FSIZE, &limit) != 0) return text;
  return limit.rlim_cur == RLIM_INFINITY
             ? text + ": more than the file system can hold in one file"
             : fmt::format("{}: this process may write files of at most {} bytes (ulimit -f, RLIMIT_FSIZE)", text,
                           limit.rlim_cur);
}

void throw_errno(ErrorCode code, const std::string& what, std::optional<std::uint64_t> offset) {
  throw Error(code, fmt::format("{}: {}", what, error_text(errno)), offset);
}

Error early_end(std::uint64_t missing_bytes, std::uint64_t offset) {
  return {ErrorCode::kFileChanged, fmt::format("the file ends {} bytes too early", missing_bytes), offset};
}

Descriptor::~Descriptor() {
  // Nothing that matters is left to fail here: writers sync before they let go.
  if (fd_ >= 0) ::close(fd_);
}

Descriptor duplicate(const Descriptor& descriptor) {
  Descriptor copy(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, 0));
  if (copy.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot duplicate a descriptor");
  return copy;
}

const char* what_else(int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(ErrorCode::kOpenFailed, "cannot ask what the file is");
  switch (status.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK:
      return nullptr;
    case S_IFDIR:
      return "a directory";
    case S_IFIFO:
      return "a pipe";
    case S_IFCHR:
      return "a character device";
    default:
      return "a socket";
  }
}

void let_wait(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) != 0) throw_errno(ErrorCode::kOpenFailed, "fcntl");
}

Descriptor open_descriptor(const std::string& file_name, OpenMode mode) {
  require_local(file_name);
  const int flags = mode == OpenMode::kRead ? O_RDONLY : O_RDWR;
  // The other end of a pipe may never be opened. What cannot be opened at once after all is leased by another
  // process, as only regular files are, and that ends.
  int at_once = O_NONBLOCK | O_NOCTTY;
  int fd = -1;
  do {
    fd = ::open(file_name.c_str(), flags | at_once | O_CLOEXEC);
    if (fd < 0 && errno == EWOULDBLOCK) at_once = O_NOCTTY;
  } while (fd < 0 && (errno == EINTR || errno == EWOULDBLOCK));
  if (fd < 0) throw_errno(ErrorCode::kOpenFailed, "cannot open");
  Descriptor descriptor(fd);
  if (const char* const other = what_else(fd)) {
    throw Error(ErrorCode::kOpenFailed,
                fmt::format("cannot open: it is {}, and a regular file or a block device is needed", other));
  }
  let_wait(fd);
  return descriptor;
}

Descriptor open_again(int fd, const std::string& file_name, int flags) {
  const auto open_named = [&](const std::string& name) {
    return Descriptor(uninterrupted([&] { return ::open(name.c_str(), flags | O_CLOEXEC | O_NONBLOCK); }));
  };
  Descriptor again = open_named(fmt::format("/proc/self/fd/{}", fd));
  if (again.get() < 0 && errno == ENOENT) again = open_named(file_name);
  if (again.get() >= 0 && !is_same_file(fd, again.get())) {
    throw Error(ErrorCode::kOpenFailed, "another file has taken its place while it was opened");
  }
  if (again.get() >= 0) let_wait(again.get());
  return again;
}

bool is_same_file(int fd, int other_fd) {
  struct stat a {};
  struct stat b {};
  return ::fstat(fd, &a) == 0 && ::fstat(other_fd, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

std::size_t bytes_still_there(int fd, std::uint64_t offset, std::size_t bytes) {
  struct statx status {};
  // What this machine knows will do, and on a network file system takes no request. A sandbox may refuse statx.
  std::uint64_t end = 0;
  if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_SIZE, &status) == 0) {
    end = S_ISREG(status.stx_mode) ? status.stx_size : UINT64_MAX;
  } else {
    end = descriptor_size(fd);
  }
  return end <= offset ? 0 : static_cast<std::size_t>(std::min<std::uint64_t>(bytes, end - offset));
}

FileVersion file_version(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) != 0) throw_errno(ErrorCode::kOpenFailed, "fstat");
  return {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size),
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

std::uint64_t descriptor_size(int fd) {
  // A seek to the end knows the size of block devices too, which fstat does not.
  const off_t end = ::lseek(fd, 0, SEEK_END);
  if (end < 0) throw_errno(ErrorCode::kOpenFailed, "the file cannot seek");
  return static_cast<std::uint64_t>(end);
}

void sync_descriptor(int fd) {
  if (!try_sync_descriptor(fd)) throw_errno(ErrorCode::kSyncFailed, "fsync");
}

bool try_sync_descriptor(int fd) {
  return uninterrupted([&] { return ::fsync(fd); }) == 0;
}

void Writeback::begin(int fd, std::uint64_t offset, std::size_t bytes) {
  static const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (!is_expected_ || bytes < kWritebackBytesMin) return;
  // A page that the next write changes would be written twice.
  const std::uint64_t begin = (offset + page_bytes - 1) / page_bytes * page_bytes;
  const std::uint64_t end = (offset + bytes) / page_bytes * page_bytes;
  if (::sync_file_range(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin), SYNC_FILE_RANGE_WRITE) == 0) {
    return;
  }
  // With these the pages stay, and the sync writes them.
  constexpr int kNotBegun[] = {ENOSYS, EOPNOTSUPP, EPERM, EACCES, EINVAL, ESPIPE, EINTR, EAGAIN, ENOMEM};
  const int error_number = errno;
  int none = 0;
  if (std::ranges::find(kNotBegun, error_number) == std::end(kNotBegun)) {
    error_number_.compare_exchange_strong(none, error_number);
  }
}

void Writeback::require_success() const {
  if (error_number_ == 0) return;
  errno = error_number_;
  throw_errno(ErrorCode::kSyncFailed, "sync_file_range");
}

bool reserve_room(int fd, std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return true;
  const auto allocate = [&] { return ::fallocate(fd, 0, static_cast<off_t>(offset), static_cast<off_t>(bytes)); };
  if (uninterrupted(allocate) == 0) return true;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return false;
  throw_errno(ErrorCode::kWriteFailed, "fallocate", offset);
}

void require_host_memory(ConstBuffer buffer, std::string_view io_path) {
  if (buffer.kind == MemoryKind::kDevice) {
    throw Error(ErrorCode::kUsage, fmt::format("I/O path {} cannot reach device memory", io_path));
  }
}

}  // namespace tzmark
