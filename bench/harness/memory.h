// How much memory an operation takes. Memory that a read fills for the first time is tzmark::HostMemory.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace tzmark::bench {

struct MemoryPeak {
  // By how much anonymous memory grew at most: sampled each millisecond from RssAnon, to within some 64 KiB a core, as
  // the kernel counts. Mapped files are not in it. A peak that is shorter than a sample's distance may be missed.
  std::uint64_t anonymous_bytes = 0;
  // The kernel's exact peak of all resident memory (VmHWM), mapped files included, less what was resident at the
  // beginning: never less than the true peak of the anonymous part where no mapping was given back meanwhile.
  std::uint64_t resident_bytes = 0;
};

// Watches this process from its making until stop(). The sampling thread takes about a hundredth of a core: watch in a
// run of its own, not in one that is timed. One object at a time, since the kernel keeps one peak a process.
// Errors: TZE-AVL-001 where /proc/self/clear_refs does not take the request.
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
  std::jthread sampler_;  // ends with the object
};

}  // namespace tzmark::bench
