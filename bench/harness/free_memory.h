// The state of free memory before an operation is timed.
//
// The host of a virtual machine takes free memory back at any time (free page reporting), and the next touch of it
// costs 5 to 30 times as much, as CPU time of the guest, which would add noise to what is timed next. Each core has a
// list of free memory of its own and hands out first what was freed there last, so all of them must have enough.
// Sources: mm/page_reporting.c and mm/page_alloc.c of Linux.
//
// For one thread at a time.
#pragma once

#include <cstdint>

namespace tzmark::bench {

// Touches new memory on all cores and gives it back, so that an operation which then takes that many bytes finds memory
// that the host has not taken, whichever cores it runs on. Does so up to four times, until a touch takes at most twice
// as long per byte as the fastest one so far. Touches that many bytes, and on each core as much again, which is at most
// its share of an eighth of the machine's memory; where a cgroup limits memory or cores, only that many bytes on one
// core. In all at most half of the free memory, so that the page cache stays. Returns whether it touched any.
bool touch_free_memory(std::uint64_t bytes);

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
