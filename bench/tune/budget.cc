// Fixed shares; see budget.h.
#include "tune/budget.h"

#include <algorithm>
#include <cmath>

namespace tzmark::bench {

using namespace std::chrono_literals;

PhaseTimes phase_times(std::chrono::nanoseconds left, std::size_t tasks_left) {
  const std::chrono::nanoseconds whole = std::max(left, 0ns) / static_cast<long>(std::max<std::size_t>(1, tasks_left));
  const auto until = [&](double share) {
    return std::chrono::nanoseconds(std::llround(static_cast<double>(whole.count()) * share));
  };
  return {until(0.64), until(0.76), until(0.8), whole};
}

std::uint64_t sample_bytes(std::chrono::nanoseconds task_time, double rate_slowest, double rate_fastest,
                           std::uint64_t bytes_max) {
  // A search of a few dozen settings and its confirmation take some hundred samples, each of which costs a few times
  // its own length.
  constexpr double kSamplesPerTask = 800, kLeastSeconds = 0.01, kMostSeconds = 0.2;
  const double seconds =
      std::clamp(std::chrono::duration<double>(task_time).count() / kSamplesPerTask, kLeastSeconds, kMostSeconds);
  // The slowest task sets the size. The fastest one then gets a sample of 10 ms, if that keeps the slowest below 200.
  const double bytes =
      std::max(seconds * rate_slowest, std::min(kLeastSeconds * rate_fastest, kMostSeconds * rate_slowest));
  const auto wanted = static_cast<std::uint64_t>(std::min(bytes, 1e18));
  constexpr std::uint64_t kMib = 1 << 20;
  return std::min(std::max(wanted / kMib * kMib, kSampleBytesMin), bytes_max);
}

}  // namespace tzmark::bench
