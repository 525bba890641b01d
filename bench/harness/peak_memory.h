// Peak memory of an operation.
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

}  // namespace tzmark::bench
