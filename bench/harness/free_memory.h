// The state of free memory before an operation is timed.
//
// The host of a virtual machine takes free memory back at any time (free page reporting), and the next touch of it
// costs 5 to 30 times as much, as CPU time of the guest, which would add noise to what is timed next. The kernel hands
// out first what was freed last. Source: mm/page_reporting.c of Linux.
//
// For one thread at a time.
#pragma once

#include <cstdint>
#include <memory>

namespace tzmark::bench {

// Frees held memory; if that was at least 15/16 of that many bytes, it is what the kernel hands out next, and nothing
// else is done. Otherwise touches that many bytes of new memory and gives them back, up to four times, until a touch
// takes at most twice as long per byte as the fastest one so far. Touches at most half of the free memory, so that the
// page cache stays. Returns the number of bytes touched.
std::uint64_t touch_free_memory(std::uint64_t bytes);

// Keeps that many bytes of memory, which a timed operation has filled, until the next call of touch_free_memory: the
// host cannot take it, and freeing it costs less than touching other memory. Frees what was held before.
void hold_memory(std::shared_ptr<const void> memory, std::uint64_t bytes);

// Gives the free memory of the heap back to the kernel, so that a run finds the heap that a new process has. A process
// that has run for long keeps freed memory, with which a load of many small tensors takes a tenth less time.
// Thread-safe.
void empty_heap();

// While one exists, memory is touched once, and again only for more bytes. For loads without pauses: they reuse memory
// before the host can reclaim it, and touching it in between would let the device rest. One object at a time.
class MemoryTouchedOnce {
 public:
  // touched_bytes: so many count as touched already.
  explicit MemoryTouchedOnce(std::uint64_t touched_bytes = 0);
  ~MemoryTouchedOnce();
  MemoryTouchedOnce(const MemoryTouchedOnce&) = delete;
  MemoryTouchedOnce& operator=(const MemoryTouchedOnce&) = delete;
};

}  // namespace tzmark::bench
