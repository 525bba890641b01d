// Fixed shares; see budget.h.
#include "tune/budget.h"

#include <algorithm>
#include <cmath>

namespace tzmark::bench {

using namespace std::chrono_literals;

PhaseTimes phase_times(std::chrono::nanoseconds left, std::size_t tasks_left, bool has_model) {
  const std::chrono::nanoseconds whole = std::max(left, 0ns) / static_cast<long>(std::max<std::size_t>(1, tasks_left));
  const auto until = [&](double share) {
    return std::chrono::nanoseconds(std::llround(static_cast<double>(whole.count()) * share));
  };
  if (has_model) return {until(0.68), until(0.8), until(0.85), whole};
  return {until(0.8), until(0.93), whole, whole};
}

std::uint64_t sample_bytes(std::chrono::nanoseconds task_time, double rate_slowest, double rate_fastest,
                           std::uint64_t bytes_max) {
  // A search of a few dozen settings takes some hundred samples, each of which costs a few times its own length.
  constexpr double kSamplesPerTask = 250, kLeastSeconds = 0.02, kMostSeconds = 0.2;
  const double seconds =
      std::clamp(std::chrono::duration<double>(task_time).count() / kSamplesPerTask, kLeastSeconds, kMostSeconds);
  // The slowest task sets the size. The fastest one then gets a sample of 20 ms, if that keeps the slowest below 200.
  const double bytes =
      std::max(seconds * rate_slowest, std::min(kLeastSeconds * rate_fastest, kMostSeconds * rate_slowest));
  const auto wanted = static_cast<std::uint64_t>(std::min(bytes, 1e18));
  constexpr std::uint64_t kMib = 1 << 20;
  return std::min(std::max(wanted / kMib * kMib, kSampleBytesMin), bytes_max);
}

}  // namespace tzmark::bench
