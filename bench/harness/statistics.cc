// Order statistics and ranks; see statistics.h.
#include "harness/statistics.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace tzmark::bench {
namespace {

constexpr double kOutside = 0.05;
constexpr std::size_t kExactMax = 40;  // the counts, at most C(40, 20), are exact in a double

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

struct Ranking {
  double u = 0;         // number of pairs in which a is above b; ties count half
  double tie_term = 0;  // sum of t^3 - t over groups of t equal samples
};

Ranking rank(std::span<const double> a, std::span<const double> b) {
  std::vector<std::pair<double, bool>> all;  // value, and whether it belongs to a
  for (const double value : a) all.emplace_back(value, true);
  for (const double value : b) all.emplace_back(value, false);
  std::ranges::sort(all);
  double rank_sum = 0;
  Ranking result;
  for (std::size_t begin = 0; begin < all.size();) {
    std::size_t end = begin;
    std::size_t of_a = 0;
    for (; end < all.size() && all[end].first == all[begin].first; ++end) of_a += all[end].second ? 1 : 0;
    const auto equal = static_cast<double>(end - begin);
    rank_sum += static_cast<double>(of_a) * (static_cast<double>(begin + end + 1) / 2);
    result.tie_term += equal * equal * equal - equal;
    begin = end;
  }
  const auto n = static_cast<double>(a.size());
  result.u = rank_sum - n * (n + 1) / 2;
  return result;
}

// Returns the number of arrangements of n and m ranks that give each U: the coefficients of the Gaussian binomial
// (n + m over n), as the product over i of (1 - q^(m + i)) / (1 - q^i).
std::vector<double> ways_of_u(std::size_t n, std::size_t m) {
  std::vector<double> ways(n * m + 1, 0);
  ways[0] = 1;
  for (std::size_t i = 1; i <= n; ++i) {
    for (std::size_t u = ways.size(); u-- > m + i;) ways[u] -= ways[u - m - i];
    for (std::size_t u = i; u < ways.size(); ++u) ways[u] += ways[u - i];
  }
  return ways;
}

double exact_p(double u, std::size_t n, std::size_t m) {
  const std::vector<double> ways = ways_of_u(n, m);
  double all = 0;
  double tail = 0;
  const double least = std::min(u, static_cast<double>(n * m) - u);
  for (std::size_t i = 0; i < ways.size(); ++i) {
    all += ways[i];
    if (static_cast<double>(i) <= least) tail += ways[i];
  }
  return std::min(1.0, 2 * tail / all);
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

double mann_whitney(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1;
  const auto [u, tie_term] = rank(a, b);
  if (tie_term == 0 && a.size() + b.size() <= kExactMax) return exact_p(u, a.size(), b.size());
  const auto n = static_cast<double>(a.size());
  const auto m = static_cast<double>(b.size());
  const double variance = n * m / 12 * (n + m + 1 - tie_term / ((n + m) * (n + m - 1)));
  if (variance <= 0) return 1;
  const double distance = std::max(0.0, std::abs(u - n * m / 2) - 0.5);
  return std::erfc(distance / std::sqrt(variance) / std::sqrt(2.0));
}

}  // namespace tzmark::bench
