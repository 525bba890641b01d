// Peak memory of an operation, and the state of free memory before it.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace tzmark::bench {

struct MemoryPeak {
  // Maximum growth of anonymous memory, without mapped files: RssAnon sampled every millisecond, accurate to about
  // 64 KiB per core. Shorter peaks may be missed.
  std::uint64_t anonymous_bytes = 0;
  // The kernel's exact peak of resident memory (VmHWM), mapped files included, less the resident memory at the start.
  // An upper bound of the anonymous peak if no file was unmapped meanwhile.
  std::uint64_t resident_bytes = 0;
};

// Watches this process from construction to stop(). Its thread takes about one percent of a core, so use an untimed
// run. One object at a time, because the kernel keeps one peak per process. Errors: TZE-AVL-001 if
// /proc/self/clear_refs cannot reset the peak.
class PeakMemory {
 public:
  PeakMemory();
  PeakMemory(const PeakMemory&) = delete;
  PeakMemory& operator=(const PeakMemory&) = delete;

  // REQUIRES: not called before.
  MemoryPeak stop();

 private:
  void sample();

  std::uint64_t anonymous_before_bytes_ = 0;
  std::uint64_t resident_before_bytes_ = 0;
  std::atomic<std::uint64_t> anonymous_peak_bytes_ = 0;
  std::jthread sampler_;  // joined by the destructor
};

// Touches that many bytes of new memory and gives them back, up to four times, until a touch takes at most twice as
// long per byte as the fastest one so far. The host of a virtual machine takes free memory back at any time (free page
// reporting), and the next touch of it costs 5 to 30 times as much, as CPU time of the guest, which would add noise to
// the next run. The kernel hands out first what was freed last. Touches at most half of the free memory, so that the
// page cache stays. Returns the number of bytes touched. For one thread at a time. Source: mm/page_reporting.c of
// Linux.
std::uint64_t touch_free_memory(std::uint64_t bytes);

// While one exists, memory is touched once, and again only for more bytes. For loads without pauses: they reuse memory
// before the host can reclaim it, and touching it in between would let the device rest. One object at a time.
class MemoryTouchedOnce {
 public:
  MemoryTouchedOnce();
  ~MemoryTouchedOnce();
  MemoryTouchedOnce(const MemoryTouchedOnce&) = delete;
  MemoryTouchedOnce& operator=(const MemoryTouchedOnce&) = delete;
};

}  // namespace tzmark::bench
