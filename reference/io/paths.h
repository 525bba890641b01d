// What each I/O path contributes to the registry, and the system calls that several of them share.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {

IoPath pwrite_path();
IoPath pwrite_dontcache_path();
IoPath buffered_path();
IoPath direct_path();
IoPath mmap_path();
IoPath uring_path();
IoPath uring_direct_path();
IoPath uring_sqpoll_path();
IoPath gpudirect_path();

// Throws TZE-ENV-00x with the text of errno.
[[noreturn]] void throw_errno(ErrorCode code, const std::string& what, std::optional<std::uint64_t> offset = {});

// What a read that finds the end of the file throws. missing_bytes: what it still wanted there.
Error early_end(std::uint64_t missing_bytes, std::uint64_t offset);

// What the action throws begins with the name of what it is about.
template <typename Action>
auto about(const std::string& name, Action&& action) {
  try {
    return action();
  } catch (const Error& error) {
    throw Error(error.code(), name + ": " + error.message(), error.offset());
  }
}

// Owns a file descriptor.
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
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

Descriptor open_descriptor(const std::string& file_name, OpenMode mode);
std::uint64_t descriptor_size(int fd);
void sync_descriptor(int fd);
// Allocates a range, and grows the file to its end. Returns false, having changed nothing, if this file system cannot.
bool reserve_room(int fd, std::uint64_t offset, std::uint64_t bytes);

// A path that takes pointers can only reach memory that the CPU can.
void require_host_memory(ConstBuffer buffer, std::string_view io_path);

}  // namespace tzmark
