// A private mapping of a whole file.
#include "file_mapping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "tzmark/descriptor.h"
#include "tzmark/error.h"

namespace tzmark::py {
namespace {

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

constexpr std::size_t kStepBytes = 32 << 20;

// Returns whether the page cache has all pages of a file; false where the kernel does not tell (before Linux 6.5).
bool is_cached(int file, std::size_t bytes) {
  constexpr long kCachestat = 451;
  struct {
    std::uint64_t offset = 0, length = 0;  // length 0: to the end
  } range;
  struct {
    std::uint64_t cached = 0, dirty = 0, writeback = 0, evicted = 0, recently_evicted = 0;
  } pages;
  if (::syscall(kCachestat, file, &range, &pages, 0) != 0) return false;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return pages.cached >= (bytes + page - 1) / page;
}

Error call_failed(const char* call, ErrorCode code = ErrorCode::kOpenFailed) {
  return Error(code, std::string(call) + ": " + std::generic_category().message(errno));
}

}  // namespace

FileMapping::FileMapping(const std::string& file_name) {
  // Not blocking, because a FIFO that has no writer would.
  const Descriptor file(::open(file_name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw call_failed("open");
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw call_failed("fstat");
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::kUnavailable, "only a regular file can be mapped; without mapped=True it is copied");
  }
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  // Without a reservation, because few programs write to the weights that they read.
  void* const memory = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file.get(), 0);
  if (memory == MAP_FAILED) {
    if (errno == ENODEV) throw Error(ErrorCode::kUnavailable, "the file system cannot map files into memory");
    throw call_failed("mmap", errno == ENOMEM ? ErrorCode::kResource : ErrorCode::kOpenFailed);
  }
  data_ = static_cast<std::byte*>(memory);
  is_cached_ = is_cached(file.get(), size_);
}

void FileMapping::map_cached_pages(const std::function<void()>& between) const {
  if (!is_cached_) return;
  for (std::size_t at = 0; at < size_; at += kStepBytes) {
    between();
    // A hint: a page that it misses is mapped at first access.
    if (::madvise(data_ + at, std::min(kStepBytes, size_ - at), MADV_POPULATE_READ) != 0 && errno == EINVAL) return;
  }
}

FileMapping::~FileMapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace tzmark::py
