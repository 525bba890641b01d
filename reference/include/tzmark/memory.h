// Anonymous host memory, in huge pages if the system has them.
#pragma once

#include <cstddef>
#include <span>

#include "tzmark/buffer.h"

namespace tzmark {

// The size and alignment of a huge page on the supported kernels.
inline constexpr std::size_t kHugePageBytes = 2 << 20;

// Owns zeroed, page-aligned memory. The system commits a page when it is first touched, and gets all of them back when
// the object is destroyed. Move-only. For one owner at a time.
class HostMemory {
 public:
  // A hint; the system may use small pages anyway. Copying into untouched memory is several times as fast with huge
  // pages.
  enum class Pages { kSmall, kHuge };

  HostMemory() = default;
  // Throws TZE-ENV-006 if the memory cannot be allocated.
  explicit HostMemory(std::size_t bytes, Pages pages = Pages::kHuge);
  ~HostMemory();
  HostMemory(HostMemory&& other) noexcept;
  HostMemory& operator=(HostMemory&& other) noexcept;

  std::span<std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tzmark
