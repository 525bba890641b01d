// Slow workers are named, and no others, over thousands of simulated runs.
#include "cluster/stragglers.h"

#include <gtest/gtest.h>

#include <random>

namespace tzmark::bench {
namespace {

using Laps = std::vector<std::vector<double>>;

// Durations with a common drift per lap, and noise of each worker that is skewed as real ones are.
Laps laps(std::size_t count, std::size_t workers, std::mt19937_64& random, double slow = 1) {
  std::lognormal_distribution<double> noise(0, 0.05), drift(0, 0.3);
  Laps all;
  for (std::size_t i = 0; i < count; ++i) {
    const double of_lap = drift(random);
    std::vector<double>& lap = all.emplace_back();
    for (std::size_t worker = 0; worker < workers; ++worker) {
      lap.push_back(of_lap * noise(random) * (worker == 1 ? slow : 1));
    }
  }
  return all;
}

TEST(Stragglers, NamesNoneOfEqualWorkers) {
  std::mt19937_64 random(46);
  for (int run = 0; run < 2000; ++run) EXPECT_TRUE(find_stragglers(laps(12, 4, random)).empty()) << run;
}

TEST(Stragglers, NamesTheOneThatIsSlow) {
  std::mt19937_64 random(47);
  for (int run = 0; run < 500; ++run) {
    const std::vector<Straggler> found = find_stragglers(laps(12, 4, random, 1.3));
    ASSERT_EQ(found.size(), 1U) << run;
    EXPECT_EQ(found[0].worker, 1U);
    EXPECT_NEAR(found[0].ratio, 1.3, 0.15);
    EXPECT_GT(found[0].low, 1);
    EXPECT_LE(found[0].p, 0.01);
  }
}

TEST(Stragglers, NamesNoneForADifferenceThatDoesNotMatter) {
  std::mt19937_64 random(48);
  for (int run = 0; run < 500; ++run) EXPECT_TRUE(find_stragglers(laps(12, 4, random, 1.03)).empty()) << run;
}

TEST(Stragglers, NeedsLapsAndOthers) {
  std::mt19937_64 random(49);
  EXPECT_EQ(straggler_laps_min(4), 10U);
  EXPECT_TRUE(find_stragglers(laps(straggler_laps_min(4) - 1, 4, random, 9)).empty());
  EXPECT_EQ(find_stragglers(laps(straggler_laps_min(4), 4, random, 9)).size(), 1U);
  EXPECT_TRUE(find_stragglers(laps(30, 2, random, 9)).empty());
  EXPECT_TRUE(find_stragglers({}).empty());
}

// A slow part of the work is met by another worker in each lap.
TEST(Stragglers, DoesNotTakeASlowPartForASlowWorker) {
  std::mt19937_64 random(50);
  Laps all = laps(12, 4, random);
  for (std::size_t i = 0; i < all.size(); ++i) all[i][i % 4] *= 1.5;
  EXPECT_TRUE(find_stragglers(all).empty());
}

TEST(Stragglers, FairnessIsOneForEqualShares) {
  EXPECT_DOUBLE_EQ(jain_index({2, 2, 2, 2}), 1);
  EXPECT_DOUBLE_EQ(jain_index({5, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index({}), 1);
}

}  // namespace
}  // namespace tzmark::bench
