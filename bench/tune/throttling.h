// Finds when a rate fell for good: a device that throttles itself, or a write cache that is full.
//
// Thread-safe; throws only std::bad_alloc.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace tzmark::bench {

// A fall of less than a tenth is the noise of a long run, not throttling.
constexpr double kThrottlingFall = 0.1;
// The probability that a series without a fall, whose values are independent, shows one.
constexpr double kThrottlingAlpha = 0.01;

struct Fall {
  std::size_t at = 0;  // the first value after it
  double before = 0;   // medians
  double after = 0;    // of all values from there on
};

// Finds the split of a series at which rank sums tell both parts apart best (Wilcoxon, Mann and Whitney), with
// Bonferroni's correction for the number of splits. Nothing if the rate did not fall by kThrottlingFall, if noise
// explains it, or if the rate of the last quarter has recovered. Values that are absent are left out.
std::optional<Fall> find_fall(std::span<const std::optional<double>> rates);

}  // namespace tzmark::bench
