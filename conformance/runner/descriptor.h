// An owned file descriptor, and a pipe of two.
//
// Thread-safety: one object belongs to one thread.
#pragma once

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "runner/errors.h"

namespace tzmark::conformance {

[[noreturn]] inline void fail_call(const char* call) {
  throw EnvironmentError(fmt::format("{}: {}", call, std::strerror(errno)));
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;

  // Throws EnvironmentError if there are no descriptors left.
  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) fail_call("pipe2");
    read_end = Descriptor(fds[0]);
    write_end = Descriptor(fds[1]);
  }
};

}  // namespace tzmark::conformance
