// Order statistics; see statistics.h.
#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace tzmark::bench {
namespace {

constexpr double kOutside = 0.05;

// Returns the rank of the bounds from either end, from 1; 0 if even the outermost pair is too narrow.
std::size_t bound_rank(std::size_t samples) {
  const auto n = static_cast<double>(samples);
  double below = 0;  // probability that at most rank - 1 samples are below the true median
  std::size_t rank = 0;
  for (std::size_t i = 0; 2 * i < samples; ++i) {
    const auto k = static_cast<double>(i);
    // lgamma sets the global signgam, which nothing here reads.
    below += std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0));
    if (2 * below > kOutside) break;
    rank = i + 1;
  }
  return rank;
}

}  // namespace

Interval median_interval(std::vector<double> samples) {
  const std::size_t n = samples.size();
  if (n == 0) return {};
  std::ranges::sort(samples);
  Interval interval{(samples[(n - 1) / 2] + samples[n / 2]) / 2, {}, {}, n};
  if (const std::size_t rank = bound_rank(n); rank > 0) {
    interval.low = samples[rank - 1];
    interval.high = samples[n - rank];
  }
  return interval;
}

Interval interval_or_range(const std::vector<double>& samples) {
  const Interval interval = median_interval(samples);
  if (interval.high) return interval;
  const auto [low, high] = std::ranges::minmax(samples);
  return {interval.median, low, high, interval.samples};
}

nlohmann::json to_json(const Interval& interval) {
  nlohmann::json low;
  nlohmann::json high;
  if (interval.low) low = *interval.low;
  if (interval.high) high = *interval.high;
  return {{"median", interval.median}, {"low", low}, {"high", high}, {"samples", interval.samples}};
}

CheckVerdict judge(const Interval& interval, double required, bool at_most) {
  if (interval.samples == 0) return CheckVerdict::kNotMeasured;
  if (!interval.low || !interval.high) return CheckVerdict::kUndecided;
  if (at_most ? *interval.high <= required : *interval.low >= required) return CheckVerdict::kPass;
  if (at_most ? *interval.low > required : *interval.high < required) return CheckVerdict::kFail;
  return CheckVerdict::kUndecided;
}

std::string_view verdict_name(CheckVerdict verdict) {
  switch (verdict) {
    case CheckVerdict::kPass:
      return "pass";
    case CheckVerdict::kFail:
      return "fail";
    case CheckVerdict::kUndecided:
      return "undecided";
    case CheckVerdict::kNotMeasured:
      break;
  }
  return "not measured";
}

}  // namespace tzmark::bench
