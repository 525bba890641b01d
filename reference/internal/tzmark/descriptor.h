// The owner of a file descriptor, for programs that make system calls of their own on the files that they measure or
// inspect. For one thread at a time.
#pragma once

#include <utility>

namespace tzmark {

// Closes its descriptor when it is destroyed. Move-only; negative means empty.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();

  int get() const { return fd_; }
  // Gives the descriptor up without closing it.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace tzmark
