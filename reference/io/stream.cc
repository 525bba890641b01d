// Opening, reading and writing streams.
#include "io/stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

namespace tzmark {
namespace {

// A pipe of one of these names is already open in this process, so it has another end.
bool names_open_descriptor(std::string_view name) {
  return name == "/dev/stdin" || name.starts_with("/dev/fd/") || name.starts_with("/proc/self/fd/");
}

// Returns whether to retry a call that has just failed: after an interruption, or when the descriptor is ready again.
bool should_retry(int fd, short events) {
  if (errno == EINTR) return true;
  if (errno != EAGAIN) return false;
  // The next call reports an error of poll.
  pollfd waiting{fd, events, 0};
  ::poll(&waiting, 1, -1);
  return true;
}

}  // namespace

Descriptor open_stream(const std::string& file_name) {
  Descriptor descriptor(
      uninterrupted([&] { return ::open(file_name.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
  if (descriptor.get() < 0) throw_errno(ErrorCode::kOpenFailed, "cannot open");
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) throw_errno(ErrorCode::kOpenFailed, "cannot ask what the file is");
  if (S_ISREG(status.st_mode) || (S_ISFIFO(status.st_mode) && names_open_descriptor(file_name))) return descriptor;
  const char* const other = what_else(descriptor.get());
  throw Error(ErrorCode::kOpenFailed,
              fmt::format("cannot open {}: only a regular file or a pipe named /dev/fd/N will do",
                          other != nullptr ? other : "a block device"));
}

std::size_t read_stream(int fd, std::span<std::byte> out, std::optional<std::uint64_t> offset) {
  for (;;) {
    const ssize_t moved = ::read(fd, out.data(), out.size());
    if (moved >= 0) return static_cast<std::size_t>(moved);
    if (!should_retry(fd, POLLIN)) throw_errno(ErrorCode::kReadFailed, "cannot read the stream", offset);
  }
}

void write_stream(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t moved = ::write(fd, bytes.data(), bytes.size());
    if (moved < 0 && !should_retry(fd, POLLOUT)) {
      throw_errno(ErrorCode::kWriteFailed, fd == STDOUT_FILENO ? "cannot write to standard output" : "cannot write");
    }
    if (moved > 0) bytes = bytes.subspan(static_cast<std::size_t>(moved));
  }
}

}  // namespace tzmark
