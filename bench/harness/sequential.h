// A confidence interval of the ratio of two subjects that may be looked at while the pairs are still coming in.
//
// Each pair runs both subjects back to back in random order and yields the logarithm of their ratio. If the order is
// random and fair, and the true ratio is the same in every pair, each logarithm is the true one plus noise whose sign
// is a fair coin, whatever the noise is: heavy tails, drift, several modes and autocorrelation included. That is all
// the interval assumes. It inverts Wilcoxon's signed-rank test: its bounds are order statistics of the Walsh averages
// (the means of all pairs of logarithms), its estimate is their median (Hodges and Lehmann, 1963).
//
// Looking repeatedly does not cost confidence: the interval changes only at looks that are set in advance, at 10, 15,
// 22, ... 4,378 pairs, and each look has an equal part of alpha. By the union bound, the intervals of all looks
// together contain the true ratio with a probability of at least 1 - alpha. The other way, spending by the correlation
// of the looks (Lan and DeMets, 1983), would save some 15 % of the pairs but holds only approximately. Confidence
// sequences that change with every pair (Robbins, 1970; Howard, Ramdas, McAuliffe and Sekhon, 2021) need more pairs
// here: see docs/what-the-numbers-mean.md for the figures.
//
// Where the assumption fails: if one subject's noise is skewed and the other's is not, the interval is one of the
// pseudo-median of the logarithms, approximately; if the order is fixed and the machine drifts, it is biased.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

namespace tzmark::bench {

// A ratio and its interval. Before the first look, the interval is everything.
struct RatioInterval {
  double estimate = 1;
  double low = 0;
  double high = std::numeric_limits<double>::infinity();
  std::size_t pairs = 0;  // at the latest look
};

// For one thread at a time.
class SequentialRatio {
 public:
  // alpha: the probability that any of the intervals misses the true ratio. For a whole table of L lines, divide it by
  // L.
  explicit SequentialRatio(double alpha = 0.05);

  // Returns whether the pair completed a look, which changed the interval. A ratio of zero or infinity, the logarithm
  // of which is infinite, is a valid outlier. REQUIRES: not NaN.
  bool add(double log_ratio);
  // Takes the next look early, because the time is up. REQUIRES: what ends the time does not depend on the ratios.
  void finish();

  const RatioInterval& interval() const { return interval_; }
  std::size_t pairs() const { return log_ratios_.size(); }
  // The number of pairs of the next look; that of the last look, once it has passed.
  std::size_t next_look() const;
  bool exhausted() const { return look_ == looks_.size(); }

 private:
  struct Look {
    std::size_t pairs;
    std::size_t rank;  // of the bounds among the Walsh averages, from either end, from 1; 0: no bounds
  };

  void look(std::size_t rank);

  double tail_;  // probability that one bound at one look is on the wrong side
  std::vector<Look> looks_;
  std::size_t look_ = 0;
  std::vector<double> log_ratios_;
  RatioInterval interval_;
};

// Judges a ratio against a bound with a zone of indifference next to it, on the side that fails. For a lower bound, the
// zone is [bound * (1 - zone), bound); for an upper bound, (bound, bound / (1 - zone)].
//
//   pass             the whole interval meets the bound
//   pass, borderline the interval is above the zone's lower edge and contains the bound, or lies in the zone
//   fail             the whole interval is beyond the zone
//   borderline       the interval contains the zone's edge and is narrower than the zone, so that it excludes the bound
//   undecided        everything else: more pairs can decide it
//
// While the interval contains the true ratio, a ratio that meets the bound never fails, one beyond the zone never
// passes, and no ratio passes (with or without "borderline") in one run and fails in another. Every true ratio is
// decided by a finite number of pairs: once the interval is narrower than the zone, all cases are covered.
enum class BoundVerdict { kUndecided, kPass, kPassBorderline, kBorderline, kFail };

constexpr double kIndifference = 0.03;

BoundVerdict judge_ratio(const RatioInterval& interval, double bound, bool at_most, double zone = kIndifference);

// Estimates how many pairs in all would decide, if the ratio is a standard error farther from the zone's edge than it
// seems: the width shrinks with their square root. Few pairs at the edge tell little, so that they cost little. 0
// without an interval.
std::size_t pairs_to_decide(const RatioInterval& interval, double bound, bool at_most, double zone = kIndifference);

// Judges whether a build is slower than the one that it runs in turn with. `floor`: differences that equal builds can
// have; `effect`: the slow-down that has to be found. A slow-down between them is decided either way.
//
//   slower     the whole interval is below 1 - floor
//   faster     the whole interval is above 1 + floor
//   same       the whole interval is above 1 - effect
//   undecided  everything else; exists only while the interval is wider than effect - floor
enum class ChangeVerdict { kUndecided, kSlower, kFaster, kSame };

constexpr double kChangeFloor = 0.005;
constexpr double kChangeEffect = 0.02;

ChangeVerdict judge_change(const RatioInterval& interval, double floor = kChangeFloor, double effect = kChangeEffect);

// "undecided", "slower", "faster", "same"
std::string_view verdict_name(ChangeVerdict verdict);

// "undecided", "pass", "pass, borderline", "borderline", "fail"
std::string_view verdict_name(BoundVerdict verdict);

}  // namespace tzmark::bench
