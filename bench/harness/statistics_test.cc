// Intervals and p-values compared with known values, and verdicts on either side of the bound.
#include "harness/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

namespace tzmark::bench {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.begin(), values.end(), 1);
  std::mt19937 random(1);
  std::ranges::shuffle(values, random);
  return values;
}

TEST(MedianInterval, TakesThePublishedRanks) {
  // n, and the lower rank of the distribution-free 95 % interval as tables of the sign test have it.
  for (const auto& [n, low] :
       {std::pair{6, 1}, {8, 1}, {9, 2}, {11, 2}, {12, 3}, {15, 4}, {20, 6}, {25, 8}, {30, 10}, {50, 18}, {100, 40}}) {
    const Interval interval = median_interval(one_to(n));
    EXPECT_EQ(interval.low, low) << n;
    EXPECT_EQ(interval.high, n + 1 - low) << n;
    EXPECT_EQ(interval.median, (n + 1) / 2.0) << n;
    EXPECT_EQ(interval.samples, static_cast<std::size_t>(n));
  }
}

TEST(MedianInterval, HasNoBoundsBelowSixSamples) {
  for (int n = 1; n < 6; ++n) {
    const Interval interval = median_interval(one_to(n));
    EXPECT_EQ(interval.median, (n + 1) / 2.0);
    EXPECT_FALSE(interval.low || interval.high);
  }
  EXPECT_EQ(median_interval({}).samples, 0u);
}

TEST(MedianInterval, HoldsTheMedianAsOftenAsItSays) {
  std::mt19937 random(7);
  std::exponential_distribution<double> skewed;
  constexpr int kRounds = 4000;
  int held = 0;
  for (int i = 0; i < kRounds; ++i) {
    std::vector<double> samples(12);
    std::ranges::generate(samples, [&] { return skewed(random); });
    const Interval interval = median_interval(samples);
    held += *interval.low <= std::log(2.0) && std::log(2.0) <= *interval.high ? 1 : 0;
  }
  EXPECT_GT(held, kRounds * 95 / 100);
  EXPECT_LT(held, kRounds * 98 / 100);  // the ranks 3 and 10 of 12 hold it with 0.961
}

TEST(MedianInterval, IsJson) {
  EXPECT_EQ(to_json(median_interval({3, 1, 2})),
            nlohmann::json::parse(R"({"median": 2.0, "low": null, "high": null, "samples": 3})"));
  EXPECT_EQ(to_json(median_interval(one_to(6)))["high"], 6.0);
}

TEST(Judge, LooksAtTheWholeInterval) {
  const Interval interval{1.0, 0.9, 1.1, 9};
  EXPECT_EQ(judge(interval, 0.9, false), CheckVerdict::kPass);
  EXPECT_EQ(judge(interval, 0.95, false), CheckVerdict::kUndecided);
  EXPECT_EQ(judge(interval, 1.1, false), CheckVerdict::kUndecided);
  EXPECT_EQ(judge(interval, 1.2, false), CheckVerdict::kFail);
  EXPECT_EQ(judge(interval, 1.1, true), CheckVerdict::kPass);
  EXPECT_EQ(judge(interval, 1.05, true), CheckVerdict::kUndecided);
  EXPECT_EQ(judge(interval, 0.9, true), CheckVerdict::kUndecided);
  EXPECT_EQ(judge(interval, 0.8, true), CheckVerdict::kFail);
}

TEST(Judge, NeedsSamples) {
  EXPECT_EQ(judge({}, 1, false), CheckVerdict::kNotMeasured);
  EXPECT_EQ(judge(median_interval({5, 5, 5}), 1, false), CheckVerdict::kUndecided);
}

TEST(Judge, HasNames) {
  EXPECT_EQ(verdict_name(CheckVerdict::kPass), "pass");
  EXPECT_EQ(verdict_name(CheckVerdict::kFail), "fail");
  EXPECT_EQ(verdict_name(CheckVerdict::kUndecided), "undecided");
  EXPECT_EQ(verdict_name(CheckVerdict::kNotMeasured), "not measured");
}

// The p-value by definition, over all permutations.
double p_by_dealing(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  std::vector<int> is_a(all.size());
  std::fill_n(is_a.begin(), a.size(), 1);
  const auto distance = [&](const std::vector<int>& deal) {
    double u = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = 0; j < all.size(); ++j) u += deal[i] > deal[j] && all[i] > all[j] ? 1 : 0;
    }
    return std::abs(u - static_cast<double>(a.size() * b.size()) / 2);
  };
  const double seen = distance(is_a);
  double as_uneven = 0;
  double ways = 0;
  do {
    ways += 1;
    as_uneven += distance(is_a) >= seen ? 1 : 0;
  } while (std::prev_permutation(is_a.begin(), is_a.end()));
  return as_uneven / ways;
}

TEST(MannWhitney, IsExactForFewSamples) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> value;
  for (int round = 0; round < 20; ++round) {
    std::vector<double> a(3 + random() % 3);
    std::vector<double> b(3 + random() % 4);
    std::ranges::generate(a, [&] { return value(random); });
    std::ranges::generate(b, [&] { return value(random) + 0.3; });
    EXPECT_NEAR(mann_whitney(a, b), p_by_dealing(a, b), 1e-12);
  }
}

TEST(MannWhitney, KnownValues) {
  // Complete separation of 9 and 9: 2 / C(18, 9).
  const std::vector<double> low = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<double> high = {11, 12, 13, 14, 15, 16, 17, 18, 19};
  EXPECT_NEAR(mann_whitney(low, high), 2.0 / 48620, 1e-12);
  EXPECT_EQ(mann_whitney(low, high), mann_whitney(high, low));
  // With ties: U = 0.5, variance 25 / 12 * (11 - 12 / 90), so z = (12 - 0.5) / 4.758 = 2.417 after correction.
  EXPECT_NEAR(mann_whitney(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>{5, 6, 6, 7, 8}), 0.01565, 5e-5);
}

TEST(MannWhitney, ApproximationIsNearTheExactValue) {
  std::mt19937 random(5);
  std::normal_distribution<double> value;
  std::vector<double> a(20);
  std::vector<double> b(20);
  std::ranges::generate(a, [&] { return value(random); });
  std::ranges::generate(b, [&] { return value(random) + 0.7; });
  const double exact = mann_whitney(a, b);
  // A pair of equal samples beyond all others takes the other way and says little.
  a.push_back(100);
  b.push_back(100);
  EXPECT_NEAR(mann_whitney(a, b), exact, 0.03);
}

TEST(MannWhitney, SaysNothingWithoutDifference) {
  EXPECT_EQ(mann_whitney({}, std::vector<double>{1}), 1);
  EXPECT_EQ(mann_whitney(std::vector<double>{2, 2, 2}, std::vector<double>{2, 2}), 1);
}

}  // namespace
}  // namespace tzmark::bench
