// Signed ranks at looks that are set in advance; see sequential.h.
#include "harness/sequential.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tzmark::bench {
namespace {

constexpr std::size_t kLooks = 16;
constexpr std::size_t kFirstLook = 10;
constexpr double kLookFactor = 1.5;
constexpr std::size_t kExactPairsMax = 100;  // the distribution of larger signed-rank sums is close to the normal one

double normal_cdf(double z) { return std::erfc(-z / std::numbers::sqrt2) / 2; }

// Returns the largest z at which normal_cdf(z) <= probability, by bisection.
double normal_quantile(double probability) {
  double low = -40;
  double high = 40;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (normal_cdf(middle) <= probability ? low : high) = middle;
  }
  return low;
}

// Returns the probability of each sum of the ranks 1 to n that have a positive sign, when signs are fair coins.
std::vector<double> signed_rank_distribution(std::size_t n) {
  std::vector<double> probability(n * (n + 1) / 2 + 1, 0);
  probability[0] = 1;
  for (std::size_t rank = 1, highest = 1; rank <= n; ++rank, highest += rank) {
    for (std::size_t sum = highest + 1; sum-- > 0;) {
      probability[sum] = probability[sum] / 2 + (sum >= rank ? probability[sum - rank] / 2 : 0);
    }
  }
  return probability;
}

// Returns the largest rank of a Walsh average of n values that is above the center with at most the given probability:
// the r-th smallest is above the center if fewer than r averages are at or below it.
std::size_t walsh_rank(std::size_t n, double tail) {
  if (n <= kExactPairsMax) {
    const std::vector<double> probability = signed_rank_distribution(n);
    double below = 0;
    std::size_t rank = 0;
    while ((below += probability[rank]) <= tail) ++rank;
    return rank;
  }
  const auto count = static_cast<double>(n);
  const double mean = count * (count + 1) / 4;
  const double deviation = std::sqrt(count * (count + 1) * (2 * count + 1) / 24);
  // The continuity correction is one half; the tails of the signed-rank sum are lighter than the normal ones.
  return static_cast<std::size_t>(std::max(0.0, std::floor(mean + normal_quantile(tail) * deviation + 0.5)));
}

// Counts the Walsh averages that are at most `limit`. sorted: the values.
std::size_t walsh_at_most(const std::vector<double>& sorted, double limit) {
  std::size_t count = 0;
  std::size_t end = sorted.size();
  for (std::size_t i = 0; i < end; ++i) {
    while (end > i && sorted[i] / 2 + sorted[end - 1] / 2 > limit) --end;
    count += end - i;
  }
  return count;
}

// Returns the Walsh average of a rank, from 1, by bisection, because there are n^2 / 2 of them.
double walsh_average(const std::vector<double>& sorted, std::size_t rank) {
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

// An upper bound of a ratio is a lower bound of its inverse.
RatioInterval inverse(const RatioInterval& interval) {
  return {1 / interval.estimate, 1 / interval.high, 1 / interval.low, interval.pairs};
}

double log_width(const RatioInterval& interval) { return std::log(interval.high / interval.low); }

double log_zone(double zone) { return -std::log1p(-zone); }

}  // namespace

SequentialRatio::SequentialRatio(double alpha) : tail_(alpha / 2 / static_cast<double>(kLooks)) {
  auto pairs = static_cast<double>(kFirstLook);
  for (std::size_t i = 0; i < kLooks; ++i, pairs *= kLookFactor) {
    const auto whole = static_cast<std::size_t>(pairs);
    looks_.push_back({whole, walsh_rank(whole, tail_)});
  }
}

bool SequentialRatio::add(double log_ratio) {
  // Beyond e^30 only the rank counts, and infinities would have no mean.
  log_ratios_.push_back(std::clamp(log_ratio, -30.0, 30.0));
  if (exhausted() || log_ratios_.size() < looks_[look_].pairs) return false;
  look(looks_[look_].rank);
  return true;
}

void SequentialRatio::finish() {
  if (exhausted() || log_ratios_.empty() || interval_.pairs == log_ratios_.size()) return;
  look(walsh_rank(log_ratios_.size(), tail_));
}

std::size_t SequentialRatio::next_look() const { return exhausted() ? looks_.back().pairs : looks_[look_].pairs; }

void SequentialRatio::look(std::size_t rank) {
  ++look_;
  std::vector<double> sorted = log_ratios_;
  std::ranges::sort(sorted);
  const std::size_t averages = sorted.size() * (sorted.size() + 1) / 2;
  interval_ = {};
  interval_.pairs = sorted.size();
  interval_.estimate =
      std::exp((walsh_average(sorted, (averages + 1) / 2) + walsh_average(sorted, averages / 2 + 1)) / 2);
  if (rank == 0) return;
  interval_.low = std::exp(walsh_average(sorted, rank));
  interval_.high = std::exp(walsh_average(sorted, averages + 1 - rank));
}

BoundVerdict judge_ratio(const RatioInterval& interval, double bound, bool at_most, double zone) {
  if (at_most) return judge_ratio(inverse(interval), 1 / bound, false, zone);
  const double edge = bound * (1 - zone);
  if (interval.low >= bound) return BoundVerdict::kPass;
  if (interval.low >= edge) return BoundVerdict::kPassBorderline;
  if (interval.high < edge) return BoundVerdict::kFail;
  const bool precise = log_width(interval) < log_zone(zone) / 2;
  return precise ? BoundVerdict::kBorderline : BoundVerdict::kUndecided;
}

std::size_t pairs_to_decide(const RatioInterval& interval, double bound, bool at_most, double zone) {
  if (at_most) return pairs_to_decide(inverse(interval), 1 / bound, false, zone);
  if (interval.low <= 0) return 0;
  // Excluding the zone's edge decides, and so does a width of half the zone.
  const double from_edge = std::abs(std::log(interval.estimate / (bound * (1 - zone))));
  const double shrink = log_width(interval) / 2 / std::max(from_edge, log_zone(zone) / 4);
  return static_cast<std::size_t>(std::ceil(static_cast<double>(interval.pairs) * shrink * shrink));
}

std::string_view verdict_name(BoundVerdict verdict) {
  switch (verdict) {
    case BoundVerdict::kPass:
      return "pass";
    case BoundVerdict::kPassBorderline:
      return "pass, borderline";
    case BoundVerdict::kBorderline:
      return "borderline";
    case BoundVerdict::kFail:
      return "fail";
    case BoundVerdict::kUndecided:
      break;
  }
  return "undecided";
}

}  // namespace tzmark::bench
