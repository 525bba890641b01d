// A FIFO that a thread fills; see fifo.h.
#include "runner/fifo.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <stop_token>
#include <system_error>
#include <utility>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

using namespace std::chrono_literals;

// How often the writer looks whether it is to end. Short against what starting a process takes.
constexpr auto kLookInterval = 1ms;

// Opening without waiting fails until somebody has opened the other end. Returns -1 if it is to stop before.
int open_when_read(const std::filesystem::path& path, const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd >= 0) return fd;
    if (errno != ENXIO && errno != EINTR) return -1;
    std::this_thread::sleep_for(kLookInterval);
  }
  return -1;
}

void write_all(int fd, std::span<const std::byte> content, const std::stop_token& stop) {
  while (!content.empty() && !stop.stop_requested()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written > 0) {
      content = content.subspan(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      pollfd writable = {fd, POLLOUT, 0};
      ::poll(&writable, 1, static_cast<int>(kLookInterval.count()));
    } else if (errno != EINTR) {
      return;  // The reader has had enough.
    }
  }
}

}  // namespace

Fifo::Fifo(std::filesystem::path path, std::span<const std::byte> content) : path_(std::move(path)) {
  if (::mkfifo(path_.c_str(), 0600) != 0) {
    throw EnvironmentError(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
  }
  // A reader that closes early must not end this process too.
  if (::signal(SIGPIPE, SIG_IGN) == SIG_ERR) throw EnvironmentError("signal(SIGPIPE)");
  const auto fill = [name = path_, content](const std::stop_token& stop) {
    const int fd = open_when_read(name, stop);
    if (fd < 0) return;
    write_all(fd, content, stop);
    ::close(fd);
  };
  try {
    writer_ = std::jthread(fill);
  } catch (const std::system_error& error) {
    ::unlink(path_.c_str());
    throw EnvironmentError(fmt::format("no thread to fill a FIFO: {}", error.what()));
  }
}

}  // namespace tzmark::conformance
