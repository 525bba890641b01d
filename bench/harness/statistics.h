// Medians with intervals, verdicts on them, and the test of two sets of samples.
//
// Throughput here is skewed and has outliers, so nothing assumes a normal distribution: intervals come from order
// statistics, comparisons from ranks. Thread-safe; no function throws but for lack of memory.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tzmark::bench {

// A median and its 95 % interval: the narrowest pair of order statistics, the same number from either end, that holds
// the true median with a probability of at least 0.95 whatever the distribution is. The bounds are samples themselves.
struct Interval {
  double median = 0;  // of an even number of samples, the mean of the middle two; 0 where there are no samples
  std::optional<double> low;
  std::optional<double> high;  // both absent below six samples: 2 / 2^5 is more than 5 %
  std::size_t samples = 0;
};

Interval median_interval(std::vector<double> samples);

// {"median", "low", "high", "samples"}; absent bounds are null.
nlohmann::json to_json(const Interval& interval);

enum class CheckVerdict {
  kPass,         // the whole interval is on the right side
  kFail,         // the whole interval is on the wrong side
  kUndecided,    // it straddles, or there are too few samples for an interval
  kNotMeasured,  // there are no samples
};

// Whether a value is at least `required`, or at most that. The bound itself is on the right side.
CheckVerdict judge(const Interval& interval, double required, bool at_most);

// "pass", "fail", "undecided", "not measured"
std::string_view verdict_name(CheckVerdict verdict);

// Two-sided p-value of the Mann-Whitney U test: how likely ranks as uneven as these are if both sets come from one
// distribution. Exact for up to 40 samples together without ties; else by the normal approximation with corrections
// for ties and continuity. 1 where a set is empty or all samples are equal.
double mann_whitney(std::span<const double> a, std::span<const double> b);

}  // namespace tzmark::bench
