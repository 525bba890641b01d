// Rank tests over processes; see comparison.h.
#include "harness/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <numeric>
#include <random>
#include <tuple>

#include "harness/ranks.h"

namespace tzmark::bench {
namespace {

constexpr double kIntervalAlpha = 0.05;
constexpr double kPower = 0.95;
constexpr double kPlannedPower = 0.99;  // allows for a spread that is known from a few processes only

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squares_of(const std::vector<double>& values) {
  const double mean = mean_of(values);
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [&](double sum, double value) { return sum + (value - mean) * (value - mean); });
}

std::vector<double> differences_of(const RunSets& row) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < row.before.size(); ++i) differences.push_back(row.after[i] - row.before[i]);
  return differences;
}

// The standard deviation between processes, or of their differences if paired.
double spread_of(const RunSets& row, bool paired) {
  if (paired) {
    const std::vector<double> differences = differences_of(row);
    return std::sqrt(squares_of(differences) / static_cast<double>(differences.size() - 1));
  }
  const auto degrees = static_cast<double>(row.before.size() + row.after.size() - 2);
  return std::sqrt((squares_of(row.before) + squares_of(row.after)) / degrees);
}

// The standard error of a difference between sides, for a spread of 1.
double standard_error(std::size_t n, std::size_t m, bool paired) {
  return paired ? 1 / std::sqrt(static_cast<double>(n))
                : std::sqrt(1 / static_cast<double>(n) + 1 / static_cast<double>(m));
}

std::size_t bound_of(std::size_t n, std::size_t m, double tail, bool paired) {
  return paired ? signed_rank_bound(n, tail) : rank_sum_bound(n, m, tail);
}

// Returns the shift, in standard deviations of normal noise, that the test finds with the power wanted; nothing if it
// can find none. The test finds a shift that exceeds the distance of the interval's bound from 0 under noise alone, so
// that distance is simulated.
std::optional<double> simulate_detectable_shift(std::size_t n, std::size_t m, bool paired, double tail, double power) {
  const std::size_t rank = bound_of(n, m, tail, paired);
  if (rank == 0) return {};
  constexpr std::size_t kDraws = 1000;
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::vector<double> distances;
  std::vector<double> differences;
  for (std::size_t draw = 0; draw < kDraws; ++draw) {
    std::vector<double> a(n);
    std::ranges::generate(a, [&] { return normal(random); });
    if (paired) {
      std::ranges::sort(a);
      distances.push_back(-walsh_average(a, rank));
      continue;
    }
    differences.clear();
    for (std::size_t j = 0; j < m; ++j) {
      const double b = normal(random);
      for (const double from : a) differences.push_back(b - from);
    }
    const auto at = differences.begin() + static_cast<std::ptrdiff_t>(rank - 1);
    std::ranges::nth_element(differences, at);
    distances.push_back(-*at);
  }
  const auto at = distances.begin() + static_cast<std::ptrdiff_t>(power * static_cast<double>(kDraws));
  std::ranges::nth_element(distances, at);
  return *at;
}

std::optional<double> detectable_shift(std::size_t n, std::size_t m, bool paired, double tail, double power) {
  // Most rows have the same numbers of runs.
  thread_local std::map<std::tuple<std::size_t, std::size_t, bool, double, double>, std::optional<double>> known;
  const auto [found, is_new] = known.try_emplace({n, m, paired, tail, power});
  if (is_new) found->second = simulate_detectable_shift(n, m, paired, tail, power);
  return found->second;
}

// The value that Student's t exceeds with a probability of `tail`. With t = tan(angle) * sqrt(degrees), its density is
// a power of the cosine, which Simpson's rule integrates.
double student_quantile(double tail, double degrees) {
  constexpr int kSteps = 2000;
  const auto beyond = [&](double from) {
    const double step = (std::numbers::pi / 2 - from) / kSteps;
    double sum = 0;
    for (int i = 0; i <= kSteps; ++i) {
      const double weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
      sum += weight * std::pow(std::max(0.0, std::cos(from + i * step)), degrees - 1);
    }
    return sum * step / 3;
  };
  const double all = 2 * beyond(0);
  double low = 0;
  double high = std::numbers::pi / 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (beyond(middle) / all > tail ? low : high) = middle;
  }
  return std::tan(high) * std::sqrt(degrees);
}

// The largest slow-down that a comparison may find at best and still show anything: one that would miss a build at less
// than half the speed shows nothing.
constexpr double kDetectableMax = 0.6;

double slowdown_of(double log_distance) { return -std::expm1(-log_distance); }
double log_distance_of(double slowdown) { return -std::log1p(-slowdown); }

// The probability of a wrong claim in one direction about the first row.
double tail_of(const ComparisonRule& rule, std::size_t rows) {
  return rule.alpha / 2 / static_cast<double>(std::max<std::size_t>(rows, 1));
}

// The slow-down that is found with the power wanted: it has to be significant, and to exceed the limit of claims.
double detectable_of(double distance, double spread, double error, double limit, double power) {
  return slowdown_of(std::max(distance * spread, limit + normal_quantile(power) * spread * error));
}

// Applies Holm's correction: multiplies the smallest of n p-values by n, the next by n - 1, and so on.
void correct(std::vector<Comparison>& rows) {
  std::vector<Comparison*> tested;
  for (Comparison& row : rows) {
    if (row.p) tested.push_back(&row);
  }
  std::ranges::sort(tested, {}, [](const Comparison* row) { return *row->p; });
  double highest = 0;
  for (std::size_t rank = 0; rank < tested.size(); ++rank) {
    highest = std::max(highest, std::min(1.0, *tested[rank]->p * static_cast<double>(tested.size() - rank)));
    tested[rank]->p = highest;
  }
}

// The claim for a ratio that differs significantly.
Change beyond(double ratio, double log_limit) {
  const double log_ratio = std::log(ratio);
  if (std::abs(log_ratio) <= log_limit) return Change::kSmall;
  return log_ratio < 0 ? Change::kRegression : Change::kFaster;
}

}  // namespace

std::string_view name_of(Change change) {
  switch (change) {
    case Change::kNone:
      return "no difference found";
    case Change::kRegression:
      return "REGRESSION";
    case Change::kFaster:
      return "faster";
    case Change::kSmall:
      return "below the threshold";
    case Change::kTooFewRuns:
      break;
  }
  return "too few runs";
}

std::vector<Comparison> compare_runs(const std::vector<RunSets>& rows, const ComparisonRule& rule) {
  const double tail = tail_of(rule, rows.size());
  std::vector<Comparison> comparisons;
  std::vector<double> limits;  // logarithms of ratios below which nothing is claimed
  for (const RunSets& row : rows) {
    const std::size_t n = row.before.size();
    const std::size_t m = row.after.size();
    Comparison comparison;
    double limit = log_distance_of(rule.threshold);
    const bool single = n == 1 || m == 1;
    if (row.floor) {
      const double quantile = student_quantile(tail, static_cast<double>(row.floor->processes - 1));
      comparison.floor = slowdown_of(quantile * row.floor->spread * standard_error(n, m, false));
    } else if (single) {
      comparison.floor = kDefaultFloor;
    }
    if (comparison.floor) limit = std::max(limit, log_distance_of(*comparison.floor));
    if (single) {
      comparison.ratio = std::exp(unpaired_shift(row.before, row.after, kIntervalAlpha).estimate);
      // Twice the limit, because the result varies by as much as the limit allows for.
      if (row.disjoint) comparison.detectable = slowdown_of(2 * limit);
    } else {
      const Shift shift = rule.paired ? paired_shift(differences_of(row), kIntervalAlpha)
                                      : unpaired_shift(row.before, row.after, kIntervalAlpha);
      comparison.ratio = std::exp(shift.estimate);
      if (shift.low) comparison.low = std::exp(*shift.low);
      if (shift.high) comparison.high = std::exp(*shift.high);
      comparison.p = shift.p;
      comparison.spread = spread_of(row, rule.paired);
      if (const std::optional<double> distance = detectable_shift(n, m, rule.paired, tail, kPower)) {
        comparison.detectable =
            detectable_of(*distance, comparison.spread, standard_error(n, m, rule.paired), limit, kPower);
      }
    }
    if (comparison.detectable && !(*comparison.detectable <= kDetectableMax)) comparison.detectable.reset();
    comparisons.push_back(comparison);
    limits.push_back(limit);
  }
  correct(comparisons);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Comparison& comparison = comparisons[i];
    const bool found = comparison.p ? *comparison.p < rule.alpha : rows[i].disjoint.value_or(false);
    if (!comparison.detectable) {
      comparison.change = Change::kTooFewRuns;
    } else if (found) {
      comparison.change = beyond(comparison.ratio, limits[i]);
    }
    // Single processes always differ by something, which is no finding.
    if (!comparison.p && comparison.change == Change::kSmall) comparison.change = Change::kNone;
  }
  return comparisons;
}

std::size_t runs_required(std::size_t rows, const ComparisonRule& rule) {
  const double tail = tail_of(rule, rows);
  std::size_t runs = 2;
  while (bound_of(runs, runs, tail, rule.paired) == 0) ++runs;
  return runs;
}

std::optional<std::size_t> runs_to_find(double slowdown, double spread, std::size_t rows, const ComparisonRule& rule) {
  constexpr std::size_t kSimulatedMax = 50;
  const double tail = tail_of(rule, rows);
  for (std::size_t runs = runs_required(rows, rule); runs <= 1000; runs += 1 + runs / 20) {
    // With many runs, the distance shrinks with the square root of their number.
    const std::size_t simulated = std::min(runs, kSimulatedMax);
    const double distance = detectable_shift(simulated, simulated, rule.paired, tail, kPlannedPower).value_or(1e9) *
                            std::sqrt(static_cast<double>(simulated) / static_cast<double>(runs));
    if (detectable_of(distance, spread, standard_error(runs, runs, rule.paired), log_distance_of(rule.threshold),
                      kPlannedPower) <= slowdown) {
      return runs;
    }
  }
  return {};
}

}  // namespace tzmark::bench
