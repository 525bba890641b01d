// Host memory for tensors; see allocation.h.
#include "allocation.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tzmark::py {

Allocation allocate(std::uint64_t bytes, HostMemory::Pages pages) {
  const auto size = static_cast<std::size_t>(bytes);
  // Small ones come from the heap, for a mapping per small tensor would waste pages.
  if (size >= kHugePageBytes) {
    auto memory = std::make_shared<HostMemory>(size, pages);
    const std::span<std::byte> view = memory->bytes().first(size);
    return {std::move(memory), view};
  }
  auto* const data =
      static_cast<std::byte*>(::operator new(std::max<std::size_t>(size, 1), std::align_val_t(kAlignBytes)));
  std::shared_ptr<const void> owner(static_cast<const void*>(data), [](const void* p) {
    ::operator delete(const_cast<void*>(p), std::align_val_t(kAlignBytes));
  });
  return {std::move(owner), {data, size}};
}

}  // namespace tzmark::py
