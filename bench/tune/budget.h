// Divides the time of a tuning run among its tasks and their phases.
//
// Thread-safe; never throws.
#pragma once

#include <chrono>
#include <cstddef>

namespace tzmark::bench {

// The ends of the phases of a task, as parts of its time.
struct PhaseTimes {
  std::chrono::nanoseconds search{};  // begins at 0; with the confirmation
  std::chrono::nanoseconds ceilings{};
  std::chrono::nanoseconds advice{};  // trials that need no root
  std::chrono::nanoseconds model{};   // the end of the task
};

// left: until the end of the budget. tasks_left: this one and those after it, which get equal parts. A phase that ends
// early leaves its time to the next ones.
PhaseTimes phase_times(std::chrono::nanoseconds left, std::size_t tasks_left);

// How much data a sample moves so that it takes a good time: long enough not to be dominated by the costs of opening a
// file, and short enough to be repeated often within the budget. rate_slowest, rate_fastest: of the tasks, in bytes per
// second. bytes_max: what memory and free space permit.
std::uint64_t sample_bytes(std::chrono::nanoseconds task_time, double rate_slowest, double rate_fastest,
                           std::uint64_t bytes_max);

// Below this, a sample shows the costs of opening a file instead of the storage.
inline constexpr std::uint64_t kSampleBytesMin = std::uint64_t{16} << 20;

}  // namespace tzmark::bench
