// How much memory an operation takes, and the state of the memory that it gets.
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

// Touches so many bytes of the system's free memory and gives them back, so that what runs next finds them as if they
// had just been freed. Free memory of a virtual machine may have gone back to its host, and then costs several times as
// much at the first touch: a matter of luck that has nothing to do with what is measured. Takes half of what is free at
// most, so that nothing is driven out of the page cache. Returns how much it has touched.
std::uint64_t touch_free_memory(std::uint64_t bytes);

}  // namespace tzmark::bench
