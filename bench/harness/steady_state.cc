// Throughput over time and its trend; see steady_state.h.
#include "harness/steady_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numbers>

#include "harness/ranks.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kBucketNs = 1'000'000'000;
constexpr std::uint64_t kBucketsMax = 2'000;

double median_of(std::vector<double> values) {
  const std::size_t n = values.size();
  std::ranges::sort(values);
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

std::uint64_t bucket_ns_of(std::span<const TimedOperation> operations) {
  std::vector<double> lengths;
  for (const TimedOperation& one : operations) lengths.push_back(static_cast<double>(one.end_ns - one.begin_ns));
  const double least = std::max(median_of(std::move(lengths)),
                                static_cast<double>(operations.back().end_ns) / static_cast<double>(kBucketsMax));
  return kBucketNs * std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(least / kBucketNs)));
}

struct Point {
  double at, value;
};

// The variance of Kendall's S without a trend: the number of pairs that rise less the number that fall.
double kendall_variance(const std::vector<Point>& points) {
  const auto of = [](double n) { return n * (n - 1) * (2 * n + 5); };
  double variance = of(static_cast<double>(points.size()));
  std::map<double, double> ties;
  for (const Point& point : points) ++ties[point.value];
  for (const auto& [value, count] : ties) variance -= of(count);
  return variance / 18;
}

// The change over all rounds of the straight line that fits best by least squares.
double fitted_change(const std::array<double, kSteadyRounds>& rates) {
  constexpr double kMiddle = (kSteadyRounds - 1) / 2.0;
  double products = 0;
  double squares = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double at = static_cast<double>(i) - kMiddle;
    products += at * rates[i];
    squares += at * at;
  }
  return products / squares * (kSteadyRounds - 1);
}

std::string why_not_steady(const SteadyState& state) {
  const auto percent = [](double part) { return fmt::format("{:.1f} %", 100 * std::abs(part)); };
  const auto verb = [](double change) { return change < 0 ? "fell" : "rose"; };
  if (std::abs(state.trend.change) >= kTrendMin && state.trend.p < kTrendAlpha) {
    return fmt::format("{} by {} in the second half", verb(state.trend.change), percent(state.trend.change));
  }
  if (std::abs(state.fit) > kFitMax) {
    return fmt::format("{} by {} in the second half, by the line through its five parts", verb(state.fit),
                       percent(state.fit));
  }
  if (state.excursion > kExcursionMax) {
    return fmt::format("the five parts of the second half differ by {}", percent(state.excursion));
  }
  return "";
}

}  // namespace

std::optional<double> rate_between(std::span<const TimedOperation> operations, std::uint64_t bytes,
                                   std::uint64_t from_ns, std::uint64_t to_ns) {
  double moved = 0;
  double busy_ns = 0;
  // Ends are in order as well.
  auto one = std::ranges::upper_bound(operations, from_ns, {}, &TimedOperation::end_ns);
  for (; one != operations.end() && one->begin_ns < to_ns; ++one) {
    const auto part_ns = static_cast<double>(std::min(one->end_ns, to_ns) - std::max(one->begin_ns, from_ns));
    busy_ns += part_ns;
    moved += static_cast<double>(bytes) * part_ns / static_cast<double>(one->end_ns - one->begin_ns);
  }
  return busy_ns > 0 ? std::optional(moved * 1e9 / busy_ns) : std::nullopt;
}

ThroughputSeries series_of(std::span<const TimedOperation> operations, std::uint64_t bytes) {
  if (operations.empty()) return {};
  ThroughputSeries series{bucket_ns_of(operations), {}};
  const std::uint64_t count = std::max<std::uint64_t>(1, operations.back().end_ns / series.bucket_ns);
  for (std::uint64_t i = 0; i < count; ++i) {
    series.rates.push_back(rate_between(operations, bytes, i * series.bucket_ns, (i + 1) * series.bucket_ns));
  }
  return series;
}

Trend trend_of(std::span<const std::optional<double>> values) {
  std::vector<Point> points;
  std::vector<double> known;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!values[i]) continue;
    points.push_back({static_cast<double>(i), *values[i]});
    known.push_back(*values[i]);
  }
  if (points.size() < 2) return {};
  double s = 0;
  std::vector<double> slopes;
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (std::size_t j = i + 1; j < points.size(); ++j) {
      slopes.push_back((points[j].value - points[i].value) / (points[j].at - points[i].at));
      s += slopes.back() > 0 ? 1 : slopes.back() < 0 ? -1 : 0;
    }
  }
  std::ranges::sort(slopes);
  const double change_per_slope = static_cast<double>(values.size()) / median_of(std::move(known));
  const double deviation = std::sqrt(kendall_variance(points));
  const auto count = static_cast<double>(slopes.size());
  Trend trend{median_of(slopes) * change_per_slope, {}, {}, 1};
  if (deviation > 0) trend.p = std::erfc(std::max(0.0, std::abs(s) - 1) / deviation / std::numbers::sqrt2);
  // The slopes between which the true one lies: Sen (1968).
  const double below = std::floor((count - normal_quantile(0.975) * deviation) / 2);
  if (points.size() >= 5 && below >= 1) {
    const auto rank = static_cast<std::size_t>(below) - 1;
    trend.low = slopes[rank] * change_per_slope;
    trend.high = slopes[slopes.size() - 1 - rank] * change_per_slope;
  }
  return trend;
}

std::string_view verdict_name(SteadyVerdict verdict) {
  switch (verdict) {
    case SteadyVerdict::kSteady:
      return "steady";
    case SteadyVerdict::kNotSteady:
      return "not steady";
    case SteadyVerdict::kUndecided:
      return "undecided";
    case SteadyVerdict::kTooShort:
      break;
  }
  return "too short";
}

SteadyState judge_steady(std::span<const TimedOperation> operations, std::uint64_t bytes) {
  SteadyState state;
  const ThroughputSeries series = series_of(operations, bytes);
  if (series.rates.empty()) return state;
  const std::size_t first = series.rates.size() / 2;
  const std::span window = std::span(series.rates).subspan(first);
  const std::uint64_t length_ns = window.size() * series.bucket_ns;
  state.window_from_ns = first * series.bucket_ns;
  state.window_to_ns = state.window_from_ns + length_ns;
  state.rate = rate_between(operations, bytes, state.window_from_ns, state.window_to_ns);
  state.trend = trend_of(window);
  std::array<double, kSteadyRounds> rounds{};
  double sum = 0;
  for (std::size_t i = 0; i < kSteadyRounds; ++i) {
    const std::uint64_t from_ns = state.window_from_ns + length_ns * i / kSteadyRounds;
    const std::uint64_t to_ns = state.window_from_ns + length_ns * (i + 1) / kSteadyRounds;
    rounds[i] = rate_between(operations, bytes, from_ns, to_ns).value_or(state.rate.value_or(0));
    sum += rounds[i];
  }
  if (sum > 0) {
    const auto [low, high] = std::ranges::minmax(rounds);
    state.excursion = (high - low) * kSteadyRounds / sum;
    state.fit = fitted_change(rounds) * kSteadyRounds / sum;
  }
  const auto known =
      static_cast<std::size_t>(std::ranges::count_if(window, [](const auto& rate) { return rate.has_value(); }));
  if (known < kBucketsMin) {
    state.why = fmt::format("the second half has {} of the {} parts of {} s that the test needs", known, kBucketsMin,
                            series.bucket_ns / kBucketNs);
    return state;
  }
  state.why = why_not_steady(state);
  if (!state.why.empty()) {
    state.verdict = SteadyVerdict::kNotSteady;
    return state;
  }
  const double low = state.trend.low.value_or(-1);
  const double high = state.trend.high.value_or(1);
  state.verdict = low < -kFitMax || high > kFitMax ? SteadyVerdict::kUndecided : SteadyVerdict::kSteady;
  if (state.verdict == SteadyVerdict::kUndecided) {
    state.why = fmt::format("a change of {:+.0f} to {:+.0f} % is possible", 100 * low, 100 * high);
  }
  return state;
}

}  // namespace tzmark::bench
