// Rank tests compared with their definitions over all arrangements, and with published values.
#include "harness/ranks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tzmark::bench {
namespace {

std::vector<double> draw(std::size_t count, std::mt19937_64& random, double shift = 0) {
  std::normal_distribution<double> normal(shift);
  std::vector<double> values(count);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

// Returns by how many pairs the labels are uneven: |number of pairs with b above a - half of all|.
double unevenness(const std::vector<double>& all, const std::vector<int>& is_b, double half) {
  double above = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t j = 0; j < all.size(); ++j) above += is_b[i] > is_b[j] && all[i] > all[j] ? 1 : 0;
  }
  return std::abs(above - half);
}

double p_over_all_labels(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all = b;
  all.insert(all.end(), a.begin(), a.end());
  std::vector<int> is_b(all.size());
  std::fill_n(is_b.begin(), b.size(), 1);
  const double half = static_cast<double>(a.size() * b.size()) / 2;
  const double seen = unevenness(all, is_b, half);
  double as_uneven = 0;
  double ways = 0;
  do {
    ways += 1;
    as_uneven += unevenness(all, is_b, half) >= seen ? 1 : 0;
  } while (std::prev_permutation(is_b.begin(), is_b.end()));
  return as_uneven / ways;
}

double p_over_all_signs(const std::vector<double>& values) {
  std::vector<double> sorted = values;
  std::ranges::sort(sorted, {}, [](double value) { return std::abs(value); });
  const auto uneven = [&](auto is_positive) {
    double sum = 0;
    for (std::size_t i = 0; i < sorted.size(); ++i) sum += is_positive(i) ? static_cast<double>(i + 1) : 0;
    return std::abs(sum - static_cast<double>(sorted.size() * (sorted.size() + 1)) / 4);
  };
  const double seen = uneven([&](std::size_t i) { return sorted[i] > 0; });
  double as_uneven = 0;
  for (unsigned signs = 0; signs < 1u << sorted.size(); ++signs) {
    as_uneven += uneven([&](std::size_t i) { return (signs >> i & 1) != 0; }) >= seen ? 1 : 0;
  }
  return as_uneven / static_cast<double>(1u << sorted.size());
}

TEST(Ranks, PValuesAreThoseOfAllArrangements) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    const std::vector<double> a = draw(3 + random() % 3, random);
    const std::vector<double> b = draw(3 + random() % 4, random, 0.7);
    EXPECT_NEAR(unpaired_shift(a, b, 0.05).p, p_over_all_labels(a, b), 1e-12);
    EXPECT_NEAR(paired_shift(b, 0.05).p, p_over_all_signs(b), 1e-12);
  }
}

TEST(Ranks, CompleteSeparation) {
  const std::vector<double> low = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<double> high = {11, 12, 13, 14, 15, 16, 17, 18, 19};
  const Shift shift = unpaired_shift(low, high, 0.05);
  EXPECT_NEAR(shift.p, 2.0 / 48620, 1e-12);
  EXPECT_EQ(shift.estimate, 10);
  EXPECT_EQ(unpaired_shift(high, low, 0.05).estimate, -10);
  EXPECT_NEAR(unpaired_shift(high, low, 0.05).p, shift.p, 1e-15);
  EXPECT_NEAR(paired_shift(low, 0.05).p, 2.0 / 512, 1e-12);
}

TEST(Ranks, TiesCountAgainstADifference) {
  EXPECT_EQ(unpaired_shift(std::vector<double>{2, 2, 2}, std::vector<double>{2, 2}, 0.05).p, 1);
  EXPECT_EQ(paired_shift({0, 0, 0, 0}, 0.05).p, 1);
  const std::vector<double> a = {1, 2, 3, 4};
  EXPECT_GT(unpaired_shift(a, std::vector<double>{4, 5, 6, 7}, 0.05).p,
            unpaired_shift(a, std::vector<double>{4.1, 5, 6, 7}, 0.05).p);
}

// The interval contains 0 exactly if the test does not reject.
TEST(Ranks, IntervalsInvertTheTests) {
  std::mt19937_64 random(9);
  int rejected = 0;
  for (int round = 0; round < 200; ++round) {
    const std::vector<double> a = draw(8, random);
    const std::vector<double> b = draw(9, random, 0.9);
    for (const Shift& shift : {unpaired_shift(a, b, 0.05), paired_shift(b, 0.05)}) {
      ASSERT_TRUE(shift.low && shift.high);
      EXPECT_LE(*shift.low, shift.estimate);
      EXPECT_LE(shift.estimate, *shift.high);
      EXPECT_EQ(*shift.low > 0 || *shift.high < 0, shift.p <= 0.05);
      rejected += shift.p <= 0.05 ? 1 : 0;
    }
  }
  EXPECT_GT(rejected, 50);
}

TEST(Ranks, TooFewValuesHaveNoInterval) {
  const std::vector<double> three = {1, 2, 3};
  EXPECT_FALSE(unpaired_shift(three, three, 0.05).low);  // 2 / C(6, 3) is 10 %
  EXPECT_FALSE(paired_shift({1, 2, 3, 4, 5}, 0.05).low);
  EXPECT_TRUE(paired_shift({1, 2, 3, 4, 5, 6}, 0.05).low);
  EXPECT_EQ(rank_sum_bound(4, 4, 0.025), 1u);
  // The published critical value of the signed-rank sum for 20 values is 52, two-sided 5 %: bounds are the next rank.
  EXPECT_EQ(signed_rank_bound(20, 0.025), 53u);
  // That of the rank sum for 10 and 10 is 23.
  EXPECT_EQ(rank_sum_bound(10, 10, 0.025), 24u);
}

// Approximated bounds are no tighter than exact ones would be: they continue them, and tails are tested by coverage.
TEST(Ranks, ApproximationsContinueTheExactValues) {
  for (const double tail : {0.025, 0.0005, 0.00001}) {
    EXPECT_LE(signed_rank_bound(101, tail), signed_rank_bound(100, tail) + 101 / 2);
    EXPECT_GT(signed_rank_bound(101, tail), signed_rank_bound(100, tail));
    EXPECT_LE(rank_sum_bound(50, 51, tail), rank_sum_bound(50, 50, tail) + 25);
    EXPECT_GE(rank_sum_bound(50, 51, tail), rank_sum_bound(50, 50, tail));
  }
  EXPECT_NEAR(normal_quantile(0.025), -1.959964, 1e-5);
}

}  // namespace
}  // namespace tzmark::bench
