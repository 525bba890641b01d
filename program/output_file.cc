// See program/output_file.h.
#include "program/output_file.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "program/random_name.h"

namespace tzmark {
namespace {

using namespace std::chrono_literals;

constexpr auto kReaderWait = 10s;
constexpr auto kReaderPause = 20ms;
constexpr int kProgressWait_ms = 60'000;

class Opened {
 public:
  explicit Opened(int fd) : fd_(fd) {}
  ~Opened() {
    if (fd_ >= 0) ::close(fd_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  Opened(Opened&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Opened& operator=(Opened&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

[[noreturn]] void refuse(const std::string& name, int error_number, const std::string& reason = "") {
  throw std::system_error(error_number, std::generic_category(),
                          name + ": cannot be written" + (reason.empty() ? "" : ": " + reason));
}

// Returns the descriptor that a name stands for in this process.
std::optional<int> descriptor_of(std::string_view name) {
  if (name == "/dev/stdout") return STDOUT_FILENO;
  if (name == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view prefix : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view number = name.substr(prefix.size());
    int fd = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), fd);
    if (error == std::errc() && end == number.data() + number.size() && fd >= 0) return fd;
  }
  return std::nullopt;
}

// The directory and the entry of a name, and what the entry is.
struct Target {
  Opened directory;
  std::string entry;
  std::optional<struct stat> status;  // of the entry itself, if there is one

  bool is_written_to() const { return status && (S_ISFIFO(status->st_mode) || S_ISCHR(status->st_mode)); }
};

// Refuses what may be neither replaced nor written to.
Target find_target(const std::string& name) {
  const std::filesystem::path path(name);
  const std::string directory = path.has_parent_path() ? path.parent_path().string() : ".";
  Target target{Opened(::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)), path.filename().string(), {}};
  if (target.directory.get() < 0) refuse(name, errno);
  if (target.entry.empty() || target.entry == "." || target.entry == "..") refuse(name, EISDIR);
  struct stat status {};
  if (::fstatat(target.directory.get(), target.entry.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    target.status = status;
  } else if (errno != ENOENT) {
    refuse(name, errno);
  }
  if (target.status && S_ISLNK(status.st_mode)) {
    struct stat leads_to {};
    const bool exists = ::fstatat(target.directory.get(), target.entry.c_str(), &leads_to, 0) == 0;
    if (exists && S_ISDIR(leads_to.st_mode)) refuse(name, EISDIR);
    if (exists && !S_ISREG(leads_to.st_mode)) refuse(name, EINVAL, "a link to something else than a file");
  } else if (target.status && S_ISDIR(status.st_mode)) {
    refuse(name, EISDIR);
  } else if (target.status && S_ISFIFO(status.st_mode)) {
    if (status.st_uid != ::geteuid() && status.st_uid != 0) refuse(name, EPERM, "a FIFO of another user");
  } else if (target.status && !S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode)) {
    refuse(name, EINVAL, "neither a file, nor a FIFO, nor a character device");
  }
  return target;
}

// Blocks SIGPIPE while this thread writes, so that a reader that is gone is an error.
class SigpipeBlocked {
 public:
  SigpipeBlocked() {
    ::sigemptyset(&sigpipe_);
    ::sigaddset(&sigpipe_, SIGPIPE);
    sigset_t pending;
    was_pending_ = ::sigpending(&pending) == 0 && ::sigismember(&pending, SIGPIPE) == 1;
    ::pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~SigpipeBlocked() {
    const timespec at_once{};
    while (!was_pending_ && ::sigtimedwait(&sigpipe_, nullptr, &at_once) < 0 && errno == EINTR) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SigpipeBlocked(const SigpipeBlocked&) = delete;
  SigpipeBlocked& operator=(const SigpipeBlocked&) = delete;

 private:
  sigset_t sigpipe_{}, before_{};
  bool was_pending_ = false;
};

// Returns 0 or the number of the error; ETIMEDOUT if a non-blocking descriptor takes nothing for a minute.
int write_all(int fd, std::string_view content) {
  const SigpipeBlocked block;
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written >= 0) {
      content.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable{fd, POLLOUT, 0};
      const int ready = ::poll(&writable, 1, kProgressWait_ms);
      if (ready == 0) return ETIMEDOUT;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

// Opens a FIFO or a character device, and waits a moment for the reader of a FIFO.
Opened open_stream(const std::string& name, const Target& target) {
  const auto end = std::chrono::steady_clock::now() + kReaderWait;
  for (;;) {
    Opened opened(::openat(target.directory.get(), target.entry.c_str(),
                           O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
    struct stat status {};
    if (opened.get() >= 0) {
      // Another file may have taken the name.
      const bool is_same = ::fstat(opened.get(), &status) == 0 && status.st_dev == target.status->st_dev &&
                           status.st_ino == target.status->st_ino;
      if (!is_same) refuse(name, ESTALE);
      return opened;
    }
    if (errno == EINTR) continue;
    if (errno != ENXIO || !S_ISFIFO(target.status->st_mode)) refuse(name, errno);
    if (std::chrono::steady_clock::now() >= end) refuse(name, ENXIO, "no process reads this FIFO");
    std::this_thread::sleep_for(kReaderPause);
  }
}

// Returns 0 or the number of the error.
int write_new_file(int fd, const std::optional<struct stat>& replaced, std::string_view content) {
  const bool is_file = replaced && S_ISREG(replaced->st_mode);
  if (is_file && replaced->st_uid == ::geteuid() && ::fchmod(fd, replaced->st_mode & 0777) != 0) return errno;
  if (const int error_number = write_all(fd, content)) return error_number;
  // Some file systems cannot sync; then the old content is no safer than it was.
  if (is_file && ::fsync(fd) != 0 && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP) return errno;
  return 0;
}

void replace(const std::string& name, const Target& target, std::string_view content) {
  const int directory = target.directory.get();
  const std::string temporary = random_name(".tzmark-tmp-");
  // No wider than what it replaces.
  const bool is_file = target.status && S_ISREG(target.status->st_mode);
  const mode_t mode = 0666 & (is_file ? target.status->st_mode | 0600 : 0666);
  const Opened file(::openat(directory, temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (file.get() < 0) refuse(name, errno);
  int error_number = write_new_file(file.get(), target.status, content);
  if (error_number == 0 && ::renameat(directory, temporary.c_str(), directory, target.entry.c_str()) != 0) {
    error_number = errno;
  }
  if (error_number == 0) return;
  ::unlinkat(directory, temporary.c_str(), 0);
  refuse(name, error_number);
}

}  // namespace

void check_output_file(const std::string& name) {
  if (const auto fd = descriptor_of(name)) {
    const int flags = ::fcntl(*fd, F_GETFL);
    if (flags < 0) refuse(name, errno);
    if ((flags & O_ACCMODE) == O_RDONLY) refuse(name, EBADF);
    return;
  }
  const Target target = find_target(name);
  const bool is_written_to = target.is_written_to();
  const char* const checked = is_written_to ? target.entry.c_str() : ".";
  if (::faccessat(target.directory.get(), checked, is_written_to ? W_OK : W_OK | X_OK, AT_EACCESS) != 0) {
    refuse(name, errno);
  }
}

void write_output_file(const std::string& name, std::string_view content) {
  if (const auto fd = descriptor_of(name)) {
    if (const int error_number = write_all(*fd, content)) refuse(name, error_number);
    return;
  }
  const Target target = find_target(name);
  if (!target.is_written_to()) return replace(name, target, content);
  const Opened stream = open_stream(name, target);
  if (const int error_number = write_all(stream.get(), content)) refuse(name, error_number);
}

}  // namespace tzmark
