// A fall is told before a slope, for it says when; see sustained.h.
#include "cli/tune/sustained.h"

#include <fmt/format.h>

#include "cli/steady.h"
#include "tune/throttling.h"

namespace tzmark::bench {

SustainedOutcome judge_sustained(const Measured& measured) {
  const std::vector<TimedOperation>& operations = measured.long_run->operations;
  const std::uint64_t bytes = measured.description().bytes;
  SustainedOutcome found;
  found.duration_s = static_cast<double>(operations.back().end_ns) / 1e9;
  found.series = series_of(operations, bytes);
  found.state = judge_steady(operations, bytes);
  if (const auto fall = find_fall(found.series.rates)) {
    found.began_s = static_cast<double>(fall->at * found.series.bucket_ns) / 1e9;
    found.text = fmt::format(
        "the rate fell from {:.2f} to {:.2f} GB/s after {:.0f} s: the device throttles itself, or its write cache is "
        "full",
        fall->before / 1e9, fall->after / 1e9, *found.began_s);
    return found;
  }
  const std::string rate = found.state.rate ? fmt::format("{:.2f} GB/s", *found.state.rate / 1e9) : "the rate";
  found.text = found.state.why.empty() ? fmt::format("{} in the second half, and it lasts", rate)
                                       : fmt::format("{} in the second half: {}", rate, found.state.why);
  return found;
}

}  // namespace tzmark::bench
