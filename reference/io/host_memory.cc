// Anonymous mappings.
#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "tzmark/error.h"
#include "tzmark/memory.h"

namespace tzmark {
namespace {

// The kernel aligns a mapping to huge pages if its size is a multiple of them.
std::size_t mapped_bytes(std::size_t bytes) {
  if (bytes < kHugePageBytes || bytes > ~std::size_t{0} - kHugePageBytes) return bytes;
  return (bytes + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
}

}  // namespace

HostMemory::HostMemory(std::size_t bytes, Pages pages) : size_(bytes) {
  if (bytes == 0) return;
  const std::size_t length = mapped_bytes(bytes);
  void* const mapped = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::kResource,
                fmt::format("cannot allocate {} bytes: {}", bytes, std::generic_category().message(errno)));
  }
  data_ = static_cast<std::byte*>(mapped);
  // If the kernel refuses, small pages do as well.
  if (bytes >= kHugePageBytes) ::madvise(mapped, length, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) ::munmap(data_, mapped_bytes(size_));
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace tzmark
