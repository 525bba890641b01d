// Judges whether throughput lasts: its rate over time, and a test of the second half of a run.
//
// The test is that of the SNIA's Solid State Storage Performance Test Specification with a trend test added. The second
// half of the run is divided into five rounds. A run is steady if the highest and the lowest of their rates differ by
// at most 20 % of the mean, if the straight line that fits them best changes by at most 10 % of it, and if the seconds
// show no trend: a change of 3 % or more by the slope of Theil and Sen, which outliers do not move, that Mann and
// Kendall's test finds significant (p < 0.01). Throughput that stays the same fails the trend test by chance in 1 % of
// runs at most, if its noise is independent from second to second. A run that passes is undecided, not steady, while
// the 95 % interval of the change includes one of more than 10 %. Thread-safe; functions throw only std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tzmark::bench {

constexpr double kExcursionMax = 0.2, kFitMax = 0.1;    // of the mean of the rounds: SNIA
constexpr double kTrendMin = 0.03, kTrendAlpha = 0.01;  // of the median of the seconds
constexpr std::size_t kSteadyRounds = 5, kBucketsMin = 10;

// One operation of a run, in nanoseconds since its beginning. All move the same number of bytes.
struct TimedOperation {
  std::uint64_t begin_ns = 0;
  std::uint64_t end_ns = 0;  // REQUIRES: after begin_ns, and not after the next begin_ns
};

// Returns bytes per second of the operations between two times, counting only the time in which one of them ran;
// nothing if none did. An operation moves its bytes evenly. operations: in order.
std::optional<double> rate_between(std::span<const TimedOperation> operations, std::uint64_t bytes,
                                   std::uint64_t from_ns, std::uint64_t to_ns);

// Rates over time, from the beginning of the run.
struct ThroughputSeries {
  std::uint64_t bucket_ns = 0;
  std::vector<std::optional<double>> rates;  // nothing where no operation ran
};

// Returns one rate per second. The buckets are longer, in whole seconds, if most operations take longer than one, or if
// there would be more than 2,000. A last second that is not complete is left out unless it is the only one.
ThroughputSeries series_of(std::span<const TimedOperation> operations, std::uint64_t bytes);

// The change of values over their whole length, as a fraction of their median.
struct Trend {
  double change = 0;
  std::optional<double> low, high;  // its 95 % interval; absent below five values
  double p = 1;                     // of no trend, two-sided
};

// Values that are absent are left out, but count as time. REQUIRES: a positive median.
Trend trend_of(std::span<const std::optional<double>> values);

enum class SteadyVerdict {
  kSteady,
  kNotSteady,
  kUndecided,  // too noisy: the interval of the change includes more than the fit may have
  kTooShort,   // fewer than ten buckets in the window
};

// "steady", "not steady", "undecided", "too short"
std::string_view verdict_name(SteadyVerdict verdict);

// Of the window, which is the second half of the run.
struct SteadyState {
  SteadyVerdict verdict = SteadyVerdict::kTooShort;
  std::string why;  // empty if steady
  std::uint64_t window_from_ns = 0, window_to_ns = 0;
  std::optional<double> rate;  // bytes per second
  Trend trend;
  double excursion = 0, fit = 0;  // of the rounds: maximum less minimum, and change of the line, over their mean
};

SteadyState judge_steady(std::span<const TimedOperation> operations, std::uint64_t bytes);

}  // namespace tzmark::bench
