// Host memory for tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tzmark/memory.h"

namespace tzmark::py {

// The alignment of allocations, and of the tensors that share one.
inline constexpr std::size_t kAlignBytes = 64;

struct Allocation {
  std::shared_ptr<const void> owner;
  std::span<std::byte> bytes;
};

// Throws TZE-ENV-006 if there is no memory.
Allocation allocate(std::uint64_t bytes, HostMemory::Pages pages);

}  // namespace tzmark::py
