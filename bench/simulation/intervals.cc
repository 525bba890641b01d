// Simulates the interval of harness/sequential.h, and the alternative to it, over kinds of noise.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "harness/sequential.h"
#include "simulation/noise.h"
#include "simulation/simulations.h"

namespace tzmark::bench::simulation {
namespace {

constexpr std::size_t kPathPairs = 1297;  // a look of SequentialRatio

// The confidence sequence of the median by counts of signs: the mixture of Bernoulli likelihood ratios by a symmetric
// beta distribution (Robbins, 1970), which is tight at some hundred pairs.
class SignSequence {
 public:
  explicit SignSequence(double alpha) {
    for (std::size_t n = 1; n <= kPathPairs; ++n) {
      std::size_t rank = 0;
      while (2 * rank < n && log_evidence(rank, n) >= -std::log(alpha)) ++rank;
      ranks_.push_back(rank);
    }
  }

  // The rank of the bounds among n sorted logarithms, from either end, from 1; 0: no bounds.
  std::size_t rank(std::size_t n) const { return ranks_[n - 1]; }

 private:
  static double log_evidence(std::size_t above, std::size_t n) {
    constexpr double kWeight = 20;
    const auto log_beta = [](double a, double b) { return std::lgamma(a) + std::lgamma(b) - std::lgamma(a + b); };
    const auto up = static_cast<double>(above);
    const auto all = static_cast<double>(n);
    return all * std::log(2.0) + log_beta(up + kWeight, all - up + kWeight) - log_beta(kWeight, kWeight);
  }

  std::vector<std::size_t> ranks_;
};

struct Tally {
  std::size_t missed = 0, fixed_missed = 0;
  std::vector<std::size_t> decided_at;
};

bool decides(BoundVerdict verdict) { return verdict != BoundVerdict::kUndecided; }

// Returns the median number of pairs, or "more than" the limit.
std::string median_pairs(std::vector<std::size_t> pairs) {
  std::ranges::sort(pairs);
  const std::size_t median = pairs[pairs.size() / 2];
  return median > kPathPairs ? fmt::format("> {}", kPathPairs) : std::to_string(median);
}

void run_kind(NoiseKind kind, bool fixed_order, const IntervalSimulation& options, std::string& table) {
  // A codec at 0.9975 of the raw path against a bound of 0.95.
  constexpr double kRatio = 0.95 * 1.05;
  constexpr double kBound = 0.95;
  const SequentialRatio fresh(0.05);
  const SignSequence signs(0.05);
  Tally ranks;
  Tally by_sign;
  std::size_t wrong = 0;
  for (std::size_t run = 0; run < options.runs; ++run) {
    std::mt19937_64 random(options.seed + 7919 * run);
    Noise noise(kind, random);
    SequentialRatio sequence = fresh;
    bool missed = false;
    bool missed_by_sign = false;
    std::size_t at = kPathPairs + 1;
    std::size_t at_by_sign = kPathPairs + 1;
    std::vector<double> sorted;
    const double truth = std::log(kRatio);
    std::size_t below = 0;
    for (std::size_t n = 1; n <= kPathPairs; ++n) {
      const double log_ratio = truth + pair_noise(noise, fixed_order);
      sorted.insert(std::ranges::upper_bound(sorted, log_ratio), log_ratio);
      below += log_ratio < truth ? 1 : 0;
      if (const std::size_t rank = signs.rank(n); rank > 0) {
        missed_by_sign = missed_by_sign || below < rank || n - below < rank;
        const RatioInterval interval{1, std::exp(sorted[rank - 1]), std::exp(sorted[n - rank]), n};
        if (at_by_sign > kPathPairs && decides(judge_ratio(interval, kBound, false))) at_by_sign = n;
      }
      if (!sequence.add(log_ratio)) continue;
      const RatioInterval& interval = sequence.interval();
      missed = missed || kRatio < interval.low || kRatio > interval.high;
      if (at <= kPathPairs) continue;
      const BoundVerdict verdict = judge_ratio(interval, kBound, false);
      if (!decides(verdict)) continue;
      at = n;
      wrong += verdict == BoundVerdict::kFail ? 1 : 0;
    }
    ranks.missed += missed ? 1 : 0;
    by_sign.missed += missed_by_sign ? 1 : 0;
    ranks.decided_at.push_back(at);
    by_sign.decided_at.push_back(at_by_sign);
  }
  const auto percent = [&](std::size_t count) {
    return 100 * static_cast<double>(count) / static_cast<double>(options.runs);
  };
  table += fmt::format("| {}{} | {:.1f} % | {} | {:.1f} % | {:.1f} % | {} |\n", name_of(kind),
                       fixed_order ? ", fixed order" : "", 100 - percent(ranks.missed), median_pairs(ranks.decided_at),
                       percent(wrong), 100 - percent(by_sign.missed), median_pairs(by_sign.decided_at));
}

}  // namespace

std::string interval_table(const IntervalSimulation& options) {
  std::string table =
      "| noise | coverage, ranks | pairs to decide | called fail | coverage, signs | pairs to decide |\n"
      "|---|---:|---:|---:|---:|---:|\n";
  for (const NoiseKind kind :
       {NoiseKind::kGaussian, NoiseKind::kHeavyTailed, NoiseKind::kOutliers, NoiseKind::kDrifting, NoiseKind::kBimodal,
        NoiseKind::kModes, NoiseKind::kAutoregressive, NoiseKind::kSkewed, NoiseKind::kOwnDrift}) {
    run_kind(kind, false, options, table);
  }
  run_kind(NoiseKind::kDrifting, true, options, table);
  return table;
}

}  // namespace tzmark::bench::simulation
