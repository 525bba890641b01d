// Raw transfers without a pause over one file: what a device moves in the long run.
//
// Limits of devices and of cgroups permit a burst after each pause, so that short runs with pauses in between look
// faster than the device is. For one thread at a time. Errors: TZE-ENV rules; TZE-AVL-001 without the path.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

namespace tzmark::bench {

struct DeviceLoad {
  std::string file_name;  // has data; a load that writes overwrites it in place
  std::string io;         // a path that bypasses the page cache
  bool writes = false;
  std::uint64_t block_bytes = 0;
  unsigned queue_depth = 1;  // over all threads
  unsigned threads = 1;
  std::chrono::nanoseconds warm_up{};  // not counted: the burst, and the filling of the queues
  std::chrono::nanoseconds time{};     // counted
};

// Returns the slope of the straight line that fits the number of completions over the time best, by least squares at
// even distances. A limit that lets transfers pass in slices of a tenth of a second makes stairs of them, of which a
// count over a short time would have one too many or too few. completions: in order. 0 for fewer than two in the time.
double completion_rate(std::span<const std::chrono::nanoseconds> completions, std::chrono::nanoseconds from,
                       std::chrono::nanoseconds to);

// Passes over the file again and again. Returns bytes per second in the counted time.
// check: called by one thread a few times per second, and ends the load by throwing; may be empty.
// REQUIRES: the file has at least one block.
double measure_device(const DeviceLoad& load, const std::function<void()>& check = {});

}  // namespace tzmark::bench
