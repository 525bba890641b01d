// Medians with intervals, and verdicts.
//
// Throughput is skewed and has outliers, so nothing assumes a normal distribution: intervals come from order
// statistics. Thread-safe; functions throw only std::bad_alloc.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <vector>

namespace tzmark::bench {

// A median and its 95 % interval: the narrowest symmetric pair of order statistics that contains the true median with a
// probability of at least 0.95 for any distribution. The bounds are samples.
struct Interval {
  double median = 0;  // the mean of the middle two of an even number of samples; 0 without samples
  std::optional<double> low;
  std::optional<double> high;  // both absent below six samples, because 2 / 2^5 is more than 5 %
  std::size_t samples = 0;
};

Interval median_interval(std::vector<double> samples);
// The same, with the whole range of the samples where they are too few for an interval. REQUIRES: not empty.
Interval interval_or_range(const std::vector<double>& samples);

// {"median", "low", "high", "samples"}; absent bounds are null.
nlohmann::json to_json(const Interval& interval);

enum class CheckVerdict {
  kPass,         // the whole interval meets the requirement
  kFail,         // the whole interval misses it
  kUndecided,    // the interval contains the bound, or there are too few samples for an interval
  kNotMeasured,  // no samples
};

// Judges whether a value is at least `required`, or at most if at_most. Equality meets the requirement.
CheckVerdict judge(const Interval& interval, double required, bool at_most);

// "pass", "fail", "undecided", "not measured"
std::string_view verdict_name(CheckVerdict verdict);

}  // namespace tzmark::bench
