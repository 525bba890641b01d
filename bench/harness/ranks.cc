// Distributions of rank sums, and the order statistics that they select; see ranks.h.
#include "harness/ranks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <utility>

namespace tzmark::bench {
namespace {

constexpr std::size_t kExactSignedMax = 100;  // values
constexpr std::size_t kExactPairsMax = 2500;  // n * m

double normal_cdf(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

// The sum of ranks of the positive values, or the number of pairs in which b is above a, if signs or labels are random.
struct RankDistribution {
  std::vector<double> probability;  // of each sum; empty: approximated
  double mean = 0;
  double deviation = 1;

  // The probability of at most this sum, with the continuity correction if approximated.
  double at_most(std::size_t sum) const {
    if (probability.empty()) return normal_cdf((static_cast<double>(sum) + 0.5 - mean) / deviation);
    double below = 0;
    for (std::size_t i = 0; i <= sum && i < probability.size(); ++i) below += probability[i];
    return below;
  }

  // The number of sums, from 0, that are all together at most as probable as `tail`.
  std::size_t tail_sums(double tail) const {
    if (probability.empty()) {
      const double sums = std::floor(mean + normal_quantile(tail) * deviation + 0.5);
      return static_cast<std::size_t>(std::max(0.0, sums));
    }
    double below = 0;
    std::size_t count = 0;
    while (count < probability.size() && (below += probability[count]) <= tail) ++count;
    return count;
  }
};

RankDistribution compute_signed_ranks(std::size_t n) {
  const auto count = static_cast<double>(n);
  RankDistribution result{{}, count * (count + 1) / 4, std::sqrt(count * (count + 1) * (2 * count + 1) / 24)};
  if (n > kExactSignedMax) return result;
  std::vector<double>& probability = result.probability;
  probability.assign(n * (n + 1) / 2 + 1, 0);
  probability[0] = 1;
  for (std::size_t rank = 1, highest = 1; rank <= n; ++rank, highest += rank) {
    for (std::size_t sum = highest + 1; sum-- > 0;) {
      probability[sum] = probability[sum] / 2 + (sum >= rank ? probability[sum - rank] / 2 : 0);
    }
  }
  return result;
}

RankDistribution compute_rank_sums(std::size_t n, std::size_t m) {
  const auto a = static_cast<double>(n);
  const auto b = static_cast<double>(m);
  RankDistribution result{{}, a * b / 2, std::sqrt(a * b * (a + b + 1) / 12)};
  if (n * m > kExactPairsMax) return result;
  // The largest of i and j values is one of the i, above all j, with a probability of i / (i + j).
  std::vector<std::vector<double>> row(m + 1, std::vector<double>{1});
  for (std::size_t i = 1; i <= n; ++i) {
    for (std::size_t j = 1; j <= m; ++j) {
      std::vector<double> next(i * j + 1, 0);
      const double first = static_cast<double>(i) / static_cast<double>(i + j);
      for (std::size_t u = 0; u < row[j].size(); ++u) next[u + j] += first * row[j][u];
      for (std::size_t u = 0; u < row[j - 1].size(); ++u) next[u] += (1 - first) * row[j - 1][u];
      row[j] = std::move(next);
    }
  }
  result.probability = std::move(row[m]);
  return result;
}

// All rows of a table need the same distributions.
const RankDistribution& signed_rank_distribution(std::size_t n) {
  thread_local std::map<std::size_t, RankDistribution> known;
  const auto [found, is_new] = known.try_emplace(n);
  if (is_new) found->second = compute_signed_ranks(n);
  return found->second;
}

const RankDistribution& rank_sum_distribution(std::size_t n, std::size_t m) {
  thread_local std::map<std::pair<std::size_t, std::size_t>, RankDistribution> known;
  const auto [found, is_new] = known.try_emplace({n, m});
  if (is_new) found->second = compute_rank_sums(n, m);
  return found->second;
}

// Counts the Walsh averages that are at most `limit`.
std::size_t walsh_at_most(const std::vector<double>& sorted, double limit) {
  std::size_t count = 0;
  std::size_t end = sorted.size();
  for (std::size_t i = 0; i < end; ++i) {
    while (end > i && sorted[i] / 2 + sorted[end - 1] / 2 > limit) --end;
    count += end - i;
  }
  return count;
}

// below, above: numbers of averages or differences on either side of 0. Those at 0 count for the smaller.
double two_sided(const RankDistribution& distribution, std::size_t all, std::size_t below, std::size_t above) {
  return std::min(1.0, 2 * distribution.at_most(all - std::max(below, above)));
}

}  // namespace

double normal_quantile(double probability) {
  double low = -40;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (normal_cdf(middle) <= probability ? low : high) = middle;
  }
  return low;
}

std::size_t signed_rank_bound(std::size_t n, double tail) { return signed_rank_distribution(n).tail_sums(tail); }

std::size_t rank_sum_bound(std::size_t n, std::size_t m, double tail) {
  return rank_sum_distribution(n, m).tail_sums(tail);
}

double walsh_average(const std::vector<double>& sorted, std::size_t rank) {
  // By bisection, because there are n^2 / 2 averages.
  double low = sorted.front();
  double high = sorted.back();
  if (walsh_at_most(sorted, low) >= rank) return low;
  while (high - low > 1e-15) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (walsh_at_most(sorted, middle) >= rank ? high : low) = middle;
  }
  return high;
}

Shift paired_shift(std::vector<double> differences, double alpha) {
  std::ranges::sort(differences);
  const std::size_t averages = differences.size() * (differences.size() + 1) / 2;
  const RankDistribution& distribution = signed_rank_distribution(differences.size());
  const auto at = [&](std::size_t rank) { return walsh_average(differences, rank); };
  Shift shift{(at((averages + 1) / 2) + at(averages / 2 + 1)) / 2, {}, {}, 1};
  if (const std::size_t rank = distribution.tail_sums(alpha / 2); rank > 0) {
    shift.low = at(rank);
    shift.high = at(averages + 1 - rank);
  }
  const std::size_t below = walsh_at_most(differences, -std::numeric_limits<double>::min());
  shift.p = two_sided(distribution, averages, below, averages - walsh_at_most(differences, 0));
  return shift;
}

Shift unpaired_shift(std::span<const double> a, std::span<const double> b, double alpha) {
  std::vector<double> differences;
  for (const double from : a) {
    for (const double to : b) differences.push_back(to - from);
  }
  std::ranges::sort(differences);
  const std::size_t all = differences.size();
  const RankDistribution& distribution = rank_sum_distribution(a.size(), b.size());
  Shift shift{(differences[(all - 1) / 2] + differences[all / 2]) / 2, {}, {}, 1};
  if (const std::size_t rank = distribution.tail_sums(alpha / 2); rank > 0) {
    shift.low = differences[rank - 1];
    shift.high = differences[all - rank];
  }
  const auto [first, last] = std::ranges::equal_range(differences, 0.0);
  shift.p = two_sided(distribution, all, static_cast<std::size_t>(first - differences.begin()),
                      static_cast<std::size_t>(differences.end() - last));
  return shift;
}

}  // namespace tzmark::bench
