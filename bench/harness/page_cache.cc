// mincore, posix_fadvise and plain reading; see page_cache.h.
#include "harness/page_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "harness/errno_error.h"
#include "tzmark/descriptor.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 30;  // mapped at a time; a multiple of any page size
constexpr std::size_t kReadBytes = std::size_t{1} << 20;

void require_mincore(const std::string& file_name, int fd) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw errno_error(ErrorCode::kReadFailed, "fstat");
  if (::geteuid() == 0 || status.st_uid == ::geteuid() || ::access(file_name.c_str(), W_OK) == 0) return;
  throw Error(ErrorCode::kUnavailable, "the kernel reveals the page cache of a file to its owner and writers only");
}

std::uint64_t resident_pages(int fd, std::uint64_t offset, std::size_t bytes, std::size_t page_bytes) {
  // Private, because FUSE refuses shared mappings of files that it opens with direct_io. mincore sees the same pages.
  void* window = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, fd, static_cast<off_t>(offset));
  if (window == MAP_FAILED && errno == ENODEV) {
    throw Error(ErrorCode::kUnavailable,
                "the file system cannot map files into memory, so the state of the page cache cannot be told");
  }
  if (window == MAP_FAILED) throw errno_error(ErrorCode::kReadFailed, "mmap", offset);
  std::vector<unsigned char> pages((bytes + page_bytes - 1) / page_bytes);
  const int result = ::mincore(window, bytes, pages.data());
  const int error = errno;
  ::munmap(window, bytes);
  errno = error;
  if (result != 0) throw errno_error(ErrorCode::kReadFailed, "mincore", offset);
  return static_cast<std::uint64_t>(std::ranges::count_if(pages, [](unsigned char page) { return (page & 1) != 0; }));
}

double share_of(int fd) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw errno_error(ErrorCode::kReadFailed, "fstat");
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (size == 0) return 0;
  std::uint64_t resident = 0;
  for (std::uint64_t offset = 0; offset < size; offset += kWindowBytes) {
    const auto bytes = static_cast<std::size_t>(std::min(kWindowBytes, size - offset));
    resident += resident_pages(fd, offset, bytes, page_bytes);
  }
  return static_cast<double>(resident) / static_cast<double>((size + page_bytes - 1) / page_bytes);
}

Descriptor open_readable(const std::string& file_name) {
  Descriptor fd(::open(file_name.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) throw errno_error(ErrorCode::kOpenFailed, file_name);
  require_mincore(file_name, fd.get());
  return fd;
}

}  // namespace

double resident_share(const std::string& file_name) { return share_of(open_readable(file_name).get()); }

double drop_pages(int fd) {
  if (::fsync(fd) != 0) throw errno_error(ErrorCode::kSyncFailed, "fsync");
  double share = 1;
  // The first call may skip pages that another CPU has not yet added to its list.
  for (int attempt = 0; attempt < 3 && share > 0; ++attempt) {
    if (const int error = ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); error != 0) {
      errno = error;
      throw errno_error(ErrorCode::kReadFailed, "posix_fadvise");
    }
    share = share_of(fd);
  }
  return share;
}

double drop(const std::string& file_name) { return drop_pages(open_readable(file_name).get()); }

double warm(const std::string& file_name) {
  const Descriptor fd = open_readable(file_name);
  if (const double share = share_of(fd.get()); share == 1) return share;
  std::vector<char> block(kReadBytes);
  for (std::uint64_t offset = 0;;) {
    const ssize_t got = ::pread(fd.get(), block.data(), block.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw errno_error(ErrorCode::kReadFailed, "pread", offset);
    if (got == 0) return share_of(fd.get());
    offset += static_cast<std::uint64_t>(got);
  }
}

double warm_anew(const std::string& file_name) {
  static_cast<void>(drop(file_name));
  return warm(file_name);
}

}  // namespace tzmark::bench
