// The interval of a ratio under repeated looks: its bounds by definition, its coverage, and the verdicts on it.
#include "harness/sequential.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "simulation/noise.h"

namespace tzmark::bench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

RatioInterval between(double low, double high) { return {std::sqrt(low * high), low, high, 100}; }

TEST(SequentialRatio, KnowsNothingBeforeTheFirstLook) {
  SequentialRatio sequence;
  EXPECT_EQ(sequence.next_look(), 10u);
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(sequence.add(0));
  EXPECT_EQ(sequence.interval().low, 0);
  EXPECT_EQ(sequence.interval().high, kInfinity);
  EXPECT_EQ(judge_ratio(sequence.interval(), 0.95, false), BoundVerdict::kUndecided);
  EXPECT_EQ(judge_ratio(sequence.interval(), 2, true), BoundVerdict::kUndecided);
  EXPECT_EQ(pairs_to_decide(sequence.interval(), 0.95, false), 0u);
  EXPECT_TRUE(sequence.add(0));
  EXPECT_EQ(sequence.interval().low, 1);
  EXPECT_EQ(sequence.interval().high, 1);
  EXPECT_EQ(sequence.next_look(), 15u);
}

// The bounds by definition: all sign patterns give the distribution of the signed-rank sum, and all Walsh averages are
// sorted.
TEST(SequentialRatio, InvertsTheSignedRankTest) {
  std::mt19937_64 random(5);
  std::normal_distribution<double> normal;
  SequentialRatio sequence(0.05);
  std::vector<double> values;
  for (int i = 0; i < 15; ++i) {
    values.push_back(0.1 * normal(random));
    sequence.add(values.back());
  }
  std::vector<double> count(15 * 16 / 2 + 1);
  for (unsigned signs = 0; signs < 1u << 15; ++signs) {
    std::size_t sum = 0;
    for (unsigned rank = 1; rank <= 15; ++rank) sum += (signs >> (rank - 1) & 1) != 0 ? rank : 0;
    count[sum] += 1;
  }
  std::size_t rank = 0;
  for (double below = 0; (below += count[rank]) <= 0.05 / 2 / 16 * (1 << 15);) ++rank;
  std::vector<double> averages;
  for (std::size_t i = 0; i < values.size(); ++i) {
    for (std::size_t j = i; j < values.size(); ++j) averages.push_back((values[i] + values[j]) / 2);
  }
  std::ranges::sort(averages);
  ASSERT_GT(rank, 1u);
  EXPECT_NEAR(std::log(sequence.interval().low), averages[rank - 1], 1e-12);
  EXPECT_NEAR(std::log(sequence.interval().high), averages[averages.size() - rank], 1e-12);
  EXPECT_NEAR(std::log(sequence.interval().estimate), (averages[59] + averages[60]) / 2, 1e-12);
}

// The largest exact look and the smallest approximate one have nearly the same bounds.
TEST(SequentialRatio, ApproximationContinuesTheExactBounds) {
  const auto width = [](int pairs) {
    SequentialRatio sequence;
    for (int i = 0; i < pairs; ++i) sequence.add(2 * (i + 0.5) / pairs - 1);
    sequence.finish();
    return std::log(sequence.interval().high / sequence.interval().low) * std::sqrt(pairs);
  };
  EXPECT_NEAR(width(101) / width(100), 1, 0.005);
}

TEST(SequentialRatio, FinishTakesTheNextLookEarly) {
  SequentialRatio sequence;
  for (int i = 0; i < 14; ++i) sequence.add(i % 2 == 0 ? 0.1 : -0.1);
  EXPECT_EQ(sequence.interval().pairs, 10u);
  sequence.finish();
  EXPECT_EQ(sequence.interval().pairs, 14u);
  EXPECT_EQ(sequence.next_look(), 22u) << "the look at 15 is spent";
  const RatioInterval before = sequence.interval();
  sequence.finish();
  EXPECT_EQ(sequence.next_look(), 22u) << "nothing new to look at";
  EXPECT_EQ(sequence.interval().low, before.low);
}

TEST(SequentialRatio, StopsAtItsLastLook) {
  SequentialRatio sequence;
  std::size_t looks = 0;
  for (int i = 0; i < 5000; ++i) looks += sequence.add(i % 2 == 0 ? 0.1 : -0.1) ? 1 : 0;
  EXPECT_EQ(looks, 16u);
  EXPECT_TRUE(sequence.exhausted());
  EXPECT_EQ(sequence.interval().pairs, 4378u);
  sequence.finish();
  EXPECT_EQ(sequence.interval().pairs, 4378u);
}

TEST(SequentialRatio, InfiniteRatiosAreOutliers) {
  SequentialRatio sequence;
  for (int i = 0; i < 50; ++i) sequence.add(i % 10 == 0 ? kInfinity : i % 10 == 5 ? -kInfinity : 0.01 * (i % 3 - 1));
  EXPECT_NEAR(sequence.interval().estimate, 1, 0.01);
  EXPECT_TRUE(std::isfinite(sequence.interval().high));
}

TEST(SequentialRatio, SmallerAlphaIsWider) {
  SequentialRatio loose(0.05);
  SequentialRatio strict(0.05 / 30);
  for (int i = 0; i < 75; ++i) {
    loose.add(0.01 * (i * 37 % 75));
    strict.add(0.01 * (i * 37 % 75));
  }
  EXPECT_LT(strict.interval().low, loose.interval().low);
  EXPECT_GT(strict.interval().high, loose.interval().high);
}

// Over all looks together, for every noise that the order of the pairs makes symmetric.
TEST(SequentialRatio, ContainsTheTrueRatioAtEveryLook) {
  using simulation::NoiseKind;
  for (const NoiseKind kind :
       {NoiseKind::kGaussian, NoiseKind::kHeavyTailed, NoiseKind::kOutliers, NoiseKind::kDrifting, NoiseKind::kBimodal,
        NoiseKind::kModes, NoiseKind::kAutoregressive}) {
    constexpr int kRuns = 400;
    const SequentialRatio fresh;
    int missed = 0;
    for (int run = 0; run < kRuns; ++run) {
      std::mt19937_64 random(static_cast<std::uint64_t>(run) + 1);
      simulation::Noise noise(kind, random);
      SequentialRatio sequence = fresh;
      bool inside = true;
      for (int i = 0; i < 378; ++i) {
        if (!sequence.add(std::log(1.2) + simulation::pair_noise(noise, /*fixed_order=*/false))) continue;
        inside = inside && sequence.interval().low <= 1.2 && 1.2 <= sequence.interval().high;
      }
      missed += inside ? 0 : 1;
    }
    EXPECT_LE(missed, kRuns * 5 / 100) << simulation::name_of(kind);
  }
}

TEST(JudgeRatio, HasAZoneBelowALowerBound) {
  // The zone is 0.97 to 1.
  EXPECT_EQ(judge_ratio(between(1.0, 1.2), 1, false), BoundVerdict::kPass);
  EXPECT_EQ(judge_ratio(between(0.98, 1.2), 1, false), BoundVerdict::kPassBorderline);
  EXPECT_EQ(judge_ratio(between(0.975, 0.99), 1, false), BoundVerdict::kPassBorderline);
  EXPECT_EQ(judge_ratio(between(0.8, 0.969), 1, false), BoundVerdict::kFail);
  EXPECT_EQ(judge_ratio(between(0.95, 0.99), 1, false), BoundVerdict::kUndecided);
  EXPECT_EQ(judge_ratio(between(0.9, 1.1), 1, false), BoundVerdict::kUndecided);
  EXPECT_EQ(judge_ratio(between(0.965, 0.975), 1, false), BoundVerdict::kBorderline);
  EXPECT_EQ(judge_ratio(between(0.96, 0.989), 1, false), BoundVerdict::kBorderline);
  EXPECT_EQ(judge_ratio(between(0.96, 0.991), 1, false), BoundVerdict::kUndecided);
  EXPECT_EQ(judge_ratio(between(0.965, 0.975), 1, false, 0.01), BoundVerdict::kFail);
}

TEST(JudgeRatio, HasAZoneAboveAnUpperBound) {
  // The zone is 2 to 2.062.
  EXPECT_EQ(judge_ratio(between(1.5, 2.0), 2, true), BoundVerdict::kPass);
  EXPECT_EQ(judge_ratio(between(1.5, 2.05), 2, true), BoundVerdict::kPassBorderline);
  EXPECT_EQ(judge_ratio(between(2.07, 3), 2, true), BoundVerdict::kFail);
  EXPECT_EQ(judge_ratio(between(2.05, 2.07), 2, true), BoundVerdict::kBorderline);
  EXPECT_EQ(judge_ratio(between(1.9, 2.2), 2, true), BoundVerdict::kUndecided);
}

TEST(JudgeRatio, EstimatesHowManyPairsDecide) {
  const double edge = 0.97;
  const RatioInterval wide{edge * std::exp(0.1), edge * std::exp(-0.1), edge * std::exp(0.3), 50};
  // Half the width is 0.2, the distance 0.1 and a standard error of 0.2 / 3.
  EXPECT_EQ(pairs_to_decide(wide, 1, false), 72u);
  // At the edge itself there is the standard error alone, until the width of the zone has to do.
  const RatioInterval at_edge{edge, edge / 1.1, edge * 1.1, 50};
  EXPECT_NEAR(static_cast<double>(pairs_to_decide(at_edge, 1, false)), 50 * 9, 1);
  const RatioInterval narrow{edge, edge / 1.02, edge * 1.02, 50};
  EXPECT_NEAR(static_cast<double>(pairs_to_decide(narrow, 1, false)),
              50 * std::pow(std::log(1.02) / (-std::log(0.97) / 2), 2), 1);
}

// Every true ratio is decided; none passes in one run and fails in another.
TEST(JudgeRatio, DecidesEveryTrueRatioTheSameWay) {
  using enum BoundVerdict;
  const SequentialRatio fresh;
  for (const double truth : {0.9, 0.96, 0.97, 0.98, 0.985, 0.99, 1.0, 1.01, 1.1}) {
    int passed = 0;
    int failed = 0;
    for (std::uint64_t run = 0; run < 100; ++run) {
      std::mt19937_64 random(run);
      simulation::Noise noise(simulation::NoiseKind::kAutoregressive, random);
      SequentialRatio sequence = fresh;
      BoundVerdict verdict = kUndecided;
      while (verdict == kUndecided && !sequence.exhausted()) {
        if (!sequence.add(std::log(truth) + simulation::pair_noise(noise, false))) continue;
        verdict = judge_ratio(sequence.interval(), 1, false);
      }
      EXPECT_NE(verdict, kUndecided) << truth;
      passed += verdict == kPass || verdict == kPassBorderline ? 1 : 0;
      failed += verdict == kFail ? 1 : 0;
      EXPECT_FALSE(truth >= 1 && verdict == kBorderline) << truth;
    }
    EXPECT_LE(std::min(passed, failed), 5) << truth;
  }
}

TEST(JudgeChange, LeavesTheFloorToChance) {
  EXPECT_EQ(judge_change(between(0.9, 0.99)), ChangeVerdict::kSlower);
  EXPECT_EQ(judge_change(between(0.9, 0.997)), ChangeVerdict::kUndecided);
  EXPECT_EQ(judge_change(between(0.985, 0.997)), ChangeVerdict::kSame);
  EXPECT_EQ(judge_change(between(0.985, 1.02)), ChangeVerdict::kSame);
  EXPECT_EQ(judge_change(between(0.97, 1.02)), ChangeVerdict::kUndecided);
  EXPECT_EQ(judge_change(between(1.01, 1.02)), ChangeVerdict::kFaster);
  EXPECT_EQ(judge_change({}), ChangeVerdict::kUndecided);
  EXPECT_EQ(judge_change(between(0.96, 0.98), 0.03, 0.05), ChangeVerdict::kSame);
  EXPECT_EQ(verdict_name(ChangeVerdict::kSlower), "slower");
  EXPECT_EQ(verdict_name(ChangeVerdict::kFaster), "faster");
  EXPECT_EQ(verdict_name(ChangeVerdict::kSame), "same");
  EXPECT_EQ(verdict_name(ChangeVerdict::kUndecided), "undecided");
}

TEST(JudgeRatio, HasNames) {
  EXPECT_EQ(verdict_name(BoundVerdict::kPass), "pass");
  EXPECT_EQ(verdict_name(BoundVerdict::kPassBorderline), "pass, borderline");
  EXPECT_EQ(verdict_name(BoundVerdict::kBorderline), "borderline");
  EXPECT_EQ(verdict_name(BoundVerdict::kFail), "fail");
  EXPECT_EQ(verdict_name(BoundVerdict::kUndecided), "undecided");
}

}  // namespace
}  // namespace tzmark::bench
