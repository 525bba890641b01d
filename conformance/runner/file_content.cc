// The content of a file, mapped into memory; see file_content.h.
#include "file_content.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "errors.h"

namespace tzmark::conformance {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, int error) {
  throw EnvironmentError(fmt::format("{}: {}", file.string(), std::strerror(error)));
}

}  // namespace

FileContent::FileContent(const std::filesystem::path& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) fail(file, errno);
  struct stat status {};
  void* address = nullptr;
  int error = ::fstat(fd, &status) == 0 ? 0 : errno;
  if (error == 0 && status.st_size > 0) {
    address = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (address == MAP_FAILED) error = errno;
  }
  ::close(fd);
  if (error != 0) fail(file, error);
  data_ = static_cast<const std::byte*>(address);
  size_bytes_ = static_cast<std::size_t>(status.st_size);
}

FileContent::FileContent(FileContent&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_bytes_(std::exchange(other.size_bytes_, 0)) {}

FileContent::~FileContent() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_bytes_);
}

}  // namespace tzmark::conformance
