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

constexpr std::size_t kHugePageBytes = 2 << 20;

}  // namespace

HostMemory::HostMemory(std::size_t bytes, Pages pages) : size_(bytes) {
  if (bytes == 0) return;
  void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::kResource,
                fmt::format("no memory of {} bytes: {}", bytes, std::generic_category().message(errno)));
  }
  data_ = static_cast<std::byte*>(mapped);
  // The kernel aligns mappings of this size by itself. A refusal is no error: the pages are small then.
  if (bytes >= kHugePageBytes) ::madvise(mapped, bytes, pages == Pages::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

HostMemory::HostMemory(HostMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HostMemory& HostMemory::operator=(HostMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace tzmark
