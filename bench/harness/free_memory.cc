// Maps and touches memory; see free_memory.h.
#include "harness/free_memory.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>

#include "harness/small_file.h"
#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

// Of the requests while a MemoryTouchedOnce exists, the largest; nothing while none does.
std::optional<std::uint64_t> touched_once_bytes;

// Memory that the host keeps taking is not worth more time than this.
constexpr int kTouchesMax = 4;
// The fastest touch so far, of memory that the host had not taken; 0 before the first one.
double least_ns_per_byte = 0;

// Maps, touches and unmaps new memory. Returns the time of the touch in nanoseconds.
double touch_new_memory(std::uint64_t bytes) {
  constexpr std::size_t kPageBytes = 4096;
  const HostMemory memory(bytes);
  const std::span<std::byte> all = memory.bytes();
  const auto begin = std::chrono::steady_clock::now();
  // volatile keeps the compiler from removing the stores.
  for (std::size_t at = 0; at < all.size(); at += kPageBytes) *const_cast<volatile std::byte*>(&all[at]) = {};
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

// What hold_memory keeps.
struct Held {
  std::shared_ptr<const void> memory;
  std::uint64_t bytes = 0;
};
Held held;

}  // namespace

void hold_memory(std::shared_ptr<const void> memory, std::uint64_t bytes) { held = {std::move(memory), bytes}; }

MemoryTouchedOnce::MemoryTouchedOnce(std::uint64_t touched_bytes) { touched_once_bytes = touched_bytes; }
MemoryTouchedOnce::~MemoryTouchedOnce() { touched_once_bytes.reset(); }

void empty_heap() { static_cast<void>(::malloc_trim(0)); }

std::uint64_t touch_free_memory(std::uint64_t bytes) {
  const std::uint64_t freed_bytes = std::exchange(held, {}).bytes;
  // A little more than before comes from what the operation has freed itself.
  if (freed_bytes >= bytes - bytes / 16) return 0;
  if (touched_once_bytes) {
    if (bytes <= *touched_once_bytes) return 0;
    touched_once_bytes = bytes;
  }
  const auto free = labelled(read_text("/proc/meminfo").value_or(""), "MemFree");
  if (!free) return 0;
  bytes = std::min<std::uint64_t>(bytes, std::strtoull(free->c_str(), nullptr, 10) * 1024 / 2);
  for (int i = 0; i < kTouchesMax && bytes > 0; ++i) {
    const double ns_per_byte = touch_new_memory(bytes) / static_cast<double>(bytes);
    if (least_ns_per_byte == 0 || ns_per_byte < least_ns_per_byte) {
      const bool is_first = least_ns_per_byte == 0;
      least_ns_per_byte = ns_per_byte;
      if (is_first) continue;
    }
    if (ns_per_byte <= 2 * least_ns_per_byte) break;
  }
  return bytes;
}

}  // namespace tzmark::bench
