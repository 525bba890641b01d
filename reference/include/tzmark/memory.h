// Host memory of the process's own, in large pages where the system has them.
#pragma once

#include <cstddef>
#include <span>

#include "tzmark/buffer.h"

namespace tzmark {

// Of the kernels that this is made for: the size of a large page, and what its address is a multiple of.
inline constexpr std::size_t kHugePageBytes = 2 << 20;

// Memory that the system has just mapped: zeros, aligned to a page, and costing nothing until it is touched. It goes
// back to the system with the object. Moves and does not copy. For one owner at a time.
class HostMemory {
 public:
  // What the system is asked for; it may give small pages all the same. Copying into memory that has never been touched
  // is several times as fast with huge pages.
  enum class Pages { kSmall, kHuge };

  HostMemory() = default;
  // Throws TZE-ENV for memory that is not to be had.
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
