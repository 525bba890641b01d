// Planted falls are found at their second; noise, rises and dips that recover are not taken for falls.
#include "tune/throttling.h"

#include <gmock/gmock.h>

#include <cmath>
#include <random>
#include <vector>

namespace tzmark::bench {
namespace {

using Series = std::vector<std::optional<double>>;

// Heavy-tailed noise around a level per second: every twentieth value is a third lower.
template <typename Level>
Series noisy(std::size_t seconds, std::uint64_t seed, const Level& level) {
  std::mt19937_64 random(seed);
  const auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  Series series;
  for (std::size_t i = 0; i < seconds; ++i) {
    const double noise = uniform() < 0.05 ? 0.66 : 1 + 0.04 * (uniform() - 0.5);
    series.emplace_back(1e9 * level(i) * noise);
  }
  return series;
}

TEST(Throttling, FindsWhenTheRateFell) {
  for (const std::size_t began : {4U, 20U, 30U, 50U}) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      const auto fall = find_fall(noisy(60, seed, [&](std::size_t i) { return i < began ? 1 : 0.6; }));
      ASSERT_TRUE(fall) << began << " " << seed;
      EXPECT_LE(std::abs(static_cast<double>(fall->at) - static_cast<double>(began)), 1) << seed;
      EXPECT_NEAR(fall->after / fall->before, 0.6, 0.05);
    }
  }
}

TEST(Throttling, NoiseIsNoFall) {
  int found = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    if (find_fall(noisy(60, seed, [](std::size_t) { return 1; }))) ++found;
  }
  EXPECT_EQ(found, 0);
}

TEST(Throttling, RisesAndDipsAreNoFalls) {
  EXPECT_FALSE(find_fall(noisy(60, 1, [](std::size_t i) { return i < 30 ? 0.6 : 1; })));
  EXPECT_FALSE(find_fall(noisy(60, 1, [](std::size_t i) { return i > 20 && i < 35 ? 0.6 : 1; })));
}

TEST(Throttling, SmallFallsAreNotClaimed) {
  EXPECT_FALSE(find_fall(noisy(60, 1, [](std::size_t i) { return i < 30 ? 1 : 0.95; })));
}

TEST(Throttling, CountsSecondsWithoutARate) {
  Series series = noisy(60, 1, [](std::size_t i) { return i < 30 ? 1 : 0.5; });
  for (std::size_t i = 5; i < 25; ++i) series[i].reset();
  const auto fall = find_fall(series);
  ASSERT_TRUE(fall);
  EXPECT_NEAR(static_cast<double>(fall->at), 30, 1);
}

TEST(Throttling, TooFewSecondsTellNothing) {
  EXPECT_FALSE(find_fall(Series{}));
  EXPECT_FALSE(find_fall(Series{1e9, 1e9, 1e9, 1e8, 1e8}));
}

}  // namespace
}  // namespace tzmark::bench
