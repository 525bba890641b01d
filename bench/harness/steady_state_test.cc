// Rates over time computed by hand, published trends, and runs of known noise that are steady or not.
#include "harness/steady_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uint64_t kBytes = 100'000'000;

using Operations = std::vector<TimedOperation>;

// Operations of about 0.1 s for that many seconds, with 10 ms between them.
Operations run_of(double seconds, const std::function<double(double part)>& rate) {
  Operations operations;
  const auto end = static_cast<std::uint64_t>(seconds * kSecond);
  for (std::uint64_t at = 0; at < end;) {
    const double relative = rate(static_cast<double>(at) / static_cast<double>(end));
    const auto length = static_cast<std::uint64_t>(0.1 * kSecond / relative);
    operations.push_back({at, at + length});
    at += length + kSecond / 100;
  }
  return operations;
}

// The number of 200 runs of 60 s with this verdict. noise: standard deviation of one operation.
int count_of(SteadyVerdict verdict, double noise, const std::function<double(double part)>& rate) {
  int count = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal(0, noise);
    const auto run = run_of(60, [&](double part) { return rate(part) * std::exp(normal(random)); });
    if (judge_steady(run, kBytes).verdict == verdict) ++count;
  }
  return count;
}

TEST(RateBetween, CountsTheTimeInWhichSomethingMoved) {
  const Operations operations = {{0, 10}, {20, 40}, {40, 50}};
  EXPECT_DOUBLE_EQ(rate_between(operations, 3, 0, 50).value(), 9 * 1e9 / 40);
  // The second half of the second operation.
  EXPECT_DOUBLE_EQ(rate_between(operations, 3, 30, 40).value(), 1.5 * 1e9 / 10);
  EXPECT_DOUBLE_EQ(rate_between(operations, 3, 5, 25).value(), (1.5 + 0.75) * 1e9 / 10);
  EXPECT_EQ(rate_between(operations, 3, 10, 20), std::nullopt);
  EXPECT_EQ(rate_between(operations, 3, 50, 90), std::nullopt);
  EXPECT_EQ(rate_between({}, 3, 0, 90), std::nullopt);
}

TEST(SeriesOf, HasOneRatePerSecond) {
  const Operations operations = {{0, kSecond / 2}, {kSecond / 2, kSecond}, {2 * kSecond, 3 * kSecond + 5}};
  const ThroughputSeries series = series_of(operations, kBytes);
  EXPECT_EQ(series.bucket_ns, kSecond);
  ASSERT_EQ(series.rates.size(), 3) << "the last one is not complete";
  EXPECT_DOUBLE_EQ(series.rates[0].value(), 2e8);
  EXPECT_EQ(series.rates[1], std::nullopt);
  EXPECT_NEAR(series.rates[2].value(), 1e8, 1);
}

TEST(SeriesOf, HasWiderBucketsForLongOperationsAndLongRuns) {
  EXPECT_EQ(series_of(Operations{{0, 5 * kSecond / 2}, {5 * kSecond / 2, 5 * kSecond}}, kBytes).bucket_ns, 3 * kSecond);
  // One that stalls is not most of them.
  const Operations stalls = {{0, kSecond}, {kSecond, 9 * kSecond}, {9 * kSecond, 10 * kSecond}};
  EXPECT_EQ(series_of(stalls, kBytes).rates.size(), 10);
  Operations hours;
  for (std::uint64_t i = 0; i < 86'400; ++i) hours.push_back({i * kSecond, (i + 1) * kSecond});
  const ThroughputSeries series = series_of(hours, kBytes);
  EXPECT_EQ(series.bucket_ns, 44 * kSecond);
  EXPECT_EQ(series.rates.size(), 1963);
  EXPECT_EQ(series_of(Operations{{0, 10}}, kBytes).rates.size(), 1);
  EXPECT_TRUE(series_of({}, kBytes).rates.empty());
}

std::vector<std::optional<double>> values_of(std::initializer_list<double> values) {
  return {values.begin(), values.end()};
}

TEST(TrendOf, IsThatOfTheilSenMannAndKendall) {
  // Slopes 1, 1/2 and 5/3 by scipy.stats.theilslopes; p by the normal approximation with its continuity correction.
  const Trend trend = trend_of(values_of({10, 12, 11, 14, 13, 16, 15, 18}));
  EXPECT_DOUBLE_EQ(trend.change, 1 * 8 / 13.5);
  EXPECT_DOUBLE_EQ(trend.low.value(), 1 / 2.0 * 8 / 13.5);
  EXPECT_DOUBLE_EQ(trend.high.value(), 5 / 3.0 * 8 / 13.5);
  EXPECT_NEAR(trend.p, 0.0093748, 1e-7);
}

TEST(TrendOf, KnowsTiesGapsAndTooFewValues) {
  EXPECT_EQ(trend_of(values_of({5, 5, 5, 5, 5, 5})).p, 1);
  EXPECT_EQ(trend_of(values_of({5, 5, 5, 5, 5, 5})).change, 0);
  EXPECT_EQ(trend_of(values_of({1, 2, 3, 4})).low, std::nullopt);
  EXPECT_EQ(trend_of(values_of({7})).p, 1);
  // A gap takes time: the slope is 1 per place, of six places.
  const std::vector<std::optional<double>> gap = {1, 2, 3, std::nullopt, 5, 6};
  EXPECT_DOUBLE_EQ(trend_of(gap).change, 6 / 3.0);
  // One outlier does not move the slope.
  EXPECT_DOUBLE_EQ(trend_of(values_of({4, 5, 6, 900, 8, 9, 10})).change, 7 / 8.0);
}

TEST(SteadyState, SteadyNoiseIsSteady) {
  const auto level = [](double) { return 1.0; };
  EXPECT_GE(count_of(SteadyVerdict::kSteady, 0.06, level), 196);
  // With more noise some runs are undecided, but the trend test errs in 1 % as before.
  EXPECT_LE(count_of(SteadyVerdict::kNotSteady, 0.15, level), 4);
  EXPECT_GE(count_of(SteadyVerdict::kSteady, 0.15, level), 100);
}

TEST(SteadyState, MuchNoiseIsUndecidedUntilTheRunIsLonger) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal(0, 0.4);
  const auto noise = [&](double) { return std::exp(normal(random)); };
  const SteadyState brief = judge_steady(run_of(60, noise), kBytes);
  EXPECT_EQ(brief.verdict, SteadyVerdict::kUndecided);
  EXPECT_NE(brief.why.find("is possible"), std::string::npos) << brief.why;
  EXPECT_EQ(judge_steady(run_of(600, noise), kBytes).verdict, SteadyVerdict::kSteady);
  // Of runs that lose a fifth in the second half, hardly any may be called steady.
  const auto decline = [](double part) { return 1 - 0.4 * part; };
  EXPECT_LE(count_of(SteadyVerdict::kSteady, 0.4, decline), 4);
}

TEST(SteadyState, ADeclineIsNotSteady) {
  const auto decline = [](double part) { return 1 - 0.1 * part; };
  EXPECT_GE(count_of(SteadyVerdict::kNotSteady, 0.03, decline), 196);
  const SteadyState state = judge_steady(run_of(60, decline), kBytes);
  EXPECT_NEAR(state.trend.change, -0.05 / 0.925, 0.003);
  EXPECT_LT(state.trend.high.value(), 0);
  EXPECT_NE(state.why.find("fell by 5."), std::string::npos) << state.why;
}

TEST(SteadyState, AStepIsNotSteadyIfItIsInTheSecondHalf) {
  EXPECT_GE(count_of(SteadyVerdict::kNotSteady, 0.03, [](double part) { return part < 0.75 ? 1.0 : 0.9; }), 196);
  EXPECT_GE(count_of(SteadyVerdict::kNotSteady, 0.03, [](double part) { return part < 0.9 ? 1.0 : 0.7; }), 196);
  const auto middle = [](double part) { return part < 0.5 ? 1.0 : 0.6; };
  EXPECT_GE(count_of(SteadyVerdict::kSteady, 0.03, middle), 196);
  EXPECT_NEAR(judge_steady(run_of(60, middle), kBytes).rate.value(), 0.6e9, 1e7);
}

TEST(SteadyState, ABurstCacheEndsBeforeTheSteadyRate) {
  const auto burst = [](double part) { return part < 1 / 3.0 ? 3.0 : 1.0; };
  EXPECT_GE(count_of(SteadyVerdict::kSteady, 0.03, burst), 196);
  const Operations run = run_of(60, burst);
  const SteadyState state = judge_steady(run, kBytes);
  EXPECT_NEAR(state.rate.value(), 1e9, 1e6);
  EXPECT_GT(rate_between(run, kBytes, 0, run.back().end_ns).value(), 1.5e9);
}

TEST(SteadyState, TwoModesInTurnAreSteadyButNotIfTheyLast) {
  int turn = 0;
  EXPECT_GE(count_of(SteadyVerdict::kSteady, 0.02, [&](double) { return ++turn % 2 == 0 ? 0.7 : 1.3; }), 196);
  // Six modes of 10 s each.
  const auto lasting = [](double part) { return static_cast<int>(part * 6) % 2 == 0 ? 0.8 : 1.2; };
  EXPECT_EQ(count_of(SteadyVerdict::kNotSteady, 0.02, lasting), 200);
  EXPECT_NE(judge_steady(run_of(60, lasting), kBytes).why.find("second half"), std::string::npos);
}

TEST(SteadyState, TheRoundsFindWhatTheTrendDoesNot) {
  // Two thirds of the window are level, then a dip and back: no trend, but an excursion of 25 %.
  const SteadyState dip =
      judge_steady(run_of(60, [](double part) { return part > 0.7 && part < 0.8 ? 0.75 : 1.0; }), kBytes);
  EXPECT_EQ(dip.verdict, SteadyVerdict::kNotSteady);
  EXPECT_GT(dip.excursion, kExcursionMax);
  EXPECT_NE(dip.why.find("differ by"), std::string::npos) << dip.why;
}

TEST(SteadyState, NeedsTwentySeconds) {
  const auto level = [](double) { return 1.0; };
  EXPECT_EQ(judge_steady({}, kBytes).verdict, SteadyVerdict::kTooShort);
  const SteadyState brief = judge_steady(run_of(15, level), kBytes);
  EXPECT_EQ(brief.verdict, SteadyVerdict::kTooShort);
  EXPECT_FALSE(brief.why.empty());
  EXPECT_NEAR(brief.rate.value(), 1e9, 1e6);
  EXPECT_EQ(judge_steady(run_of(21, level), kBytes).verdict, SteadyVerdict::kSteady);
  // Operations of 4 s need longer.
  Operations slow;
  for (std::uint64_t at = 0; at < 60; at += 4) slow.push_back({at * kSecond, (at + 4) * kSecond});
  EXPECT_EQ(judge_steady(slow, kBytes).verdict, SteadyVerdict::kTooShort);
}

}  // namespace
}  // namespace tzmark::bench
