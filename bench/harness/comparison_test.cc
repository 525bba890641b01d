// Comparisons of sets of runs: false alarms, power against what "detectable" promises, floors, and numbers of runs.
#include "harness/comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace tzmark::bench {
namespace {

std::vector<double> runs(std::size_t count, double spread, double shift, std::mt19937_64& random) {
  std::normal_distribution<double> normal(shift, spread);
  std::vector<double> values(count);
  std::ranges::generate(values, [&] { return normal(random); });
  return values;
}

std::vector<RunSets> rows_of(std::size_t rows, std::size_t count, double spread, double shift,
                             std::mt19937_64& random) {
  std::vector<RunSets> sets;
  for (std::size_t i = 0; i < rows; ++i) {
    sets.push_back({runs(count, spread, 0, random), runs(count, spread, i == 0 ? shift : 0, random)});
  }
  return sets;
}

TEST(CompareRuns, FindsWhatItSaysItCanFind) {
  std::mt19937_64 random(1);
  for (const bool paired : {false, true}) {
    const ComparisonRule rule{0.01, 0.02, paired};
    const std::size_t count = paired ? 16 : 12;
    double detectable = 0;
    constexpr int kTimes = 100;
    for (int i = 0; i < kTimes; ++i) {
      detectable += *compare_runs(rows_of(10, count, 0.01, 0, random), rule)[0].detectable / kTimes;
    }
    int found = 0;
    for (int i = 0; i < kTimes; ++i) {
      const auto compared = compare_runs(rows_of(10, count, 0.01, std::log1p(-detectable), random), rule);
      found += compared[0].change == Change::kRegression ? 1 : 0;
    }
    EXPECT_GE(found, 88) << paired << " " << detectable;
    EXPECT_LT(detectable, 0.04);
  }
}

TEST(CompareRuns, RaisesFewFalseAlarms) {
  std::mt19937_64 random(2);
  int alarms = 0;
  for (int i = 0; i < 500; ++i) {
    const auto compared = compare_runs(rows_of(30, 10, 0.03, 0, random), {});
    alarms += std::ranges::any_of(compared, [](const Comparison& row) { return row.change != Change::kNone; }) ? 1 : 0;
  }
  EXPECT_LE(alarms, 10);
}

TEST(CompareRuns, ClaimsNothingOfTooFewRuns) {
  std::mt19937_64 random(3);
  for (const Comparison& row : compare_runs(rows_of(30, 5, 0.0001, -1, random), {})) {
    EXPECT_EQ(row.change, Change::kTooFewRuns);
    EXPECT_FALSE(row.detectable);
    EXPECT_TRUE(row.low);
  }
  EXPECT_EQ(runs_required(30, {}), 8u);  // 2 / C(16, 8) * 30 is 0.5 %
  EXPECT_EQ(runs_required(30, {0.01, 0.02, true}), 13u);
  EXPECT_EQ(compare_runs(rows_of(30, 8, 0.0001, -1, random), {})[0].change, Change::kRegression);
}

TEST(CompareRuns, ClaimsNoChangeBelowTheThreshold) {
  std::mt19937_64 random(4);
  const auto change = [&](double shift, double threshold) {
    return compare_runs(rows_of(1, 10, 0.001, shift, random), {0.01, threshold, false})[0].change;
  };
  EXPECT_EQ(change(-0.03, 0.02), Change::kRegression);
  EXPECT_EQ(change(-0.03, 0.05), Change::kSmall);
  EXPECT_EQ(change(0.03, 0.02), Change::kFaster);
  EXPECT_EQ(change(0, 0.02), Change::kNone);
}

// A floor of few processes is so wide that a build at a tenth of the speed would be below it.
TEST(CompareRuns, ClaimsNothingBelowAFloorThatTellsNothing) {
  std::mt19937_64 random(5);
  struct Case {
    std::size_t runs, processes;
  };
  for (const auto [runs, processes] : {Case{1, 2}, Case{1, 3}, Case{10, 2}}) {
    std::vector<RunSets> rows = rows_of(30, runs, 0.001, std::log(0.1), random);
    for (RunSets& row : rows) {
      row.floor = Floor{0.03, processes};
      row.disjoint = true;
    }
    for (const Comparison& row : compare_runs(rows, {})) {
      EXPECT_FALSE(row.detectable) << runs << " " << processes;
      EXPECT_EQ(row.change, Change::kTooFewRuns);
    }
    for (RunSets& row : rows) row.floor = Floor{0.03, 11};
    EXPECT_EQ(compare_runs(rows, {})[0].change, Change::kRegression);
  }
}

TEST(CompareRuns, SingleProcessesHaveAFloor) {
  const auto compare = [](double after, std::optional<Floor> floor, std::optional<bool> disjoint) {
    return compare_runs({{{0}, {std::log(after)}, floor, disjoint}}, {})[0];
  };
  const Comparison slower = compare(0.65, {}, true);
  EXPECT_EQ(slower.change, Change::kRegression);
  EXPECT_NEAR(slower.ratio, 0.65, 1e-12);
  EXPECT_FALSE(slower.p || slower.low);
  EXPECT_EQ(slower.floor, kDefaultFloor);
  EXPECT_EQ(compare(0.65, {}, false).change, Change::kNone);
  EXPECT_EQ(compare(0.65, {}, {}).change, Change::kTooFewRuns);
  EXPECT_FALSE(compare(0.65, {}, {}).detectable);
  EXPECT_EQ(compare(0.8, {}, true).change, Change::kNone);
  EXPECT_EQ(compare(1.5, {}, true).change, Change::kFaster);
  // t of 10 degrees of freedom exceeds 3.169 with 0.5 %.
  const Comparison measured = compare(0.8, Floor{0.01, 11}, true);
  EXPECT_NEAR(*measured.floor, -std::expm1(-3.1693 * 0.01 * std::sqrt(2)), 1e-5);
  EXPECT_EQ(measured.change, Change::kRegression);
}

TEST(CompareRuns, FloorHoldsForSeveralRunsToo) {
  std::mt19937_64 random(6);
  std::vector<RunSets> rows = rows_of(1, 10, 0.001, -0.05, random);
  EXPECT_EQ(compare_runs(rows, {})[0].change, Change::kRegression);
  rows[0].floor = Floor{0.1, 11};
  EXPECT_EQ(compare_runs(rows, {})[0].change, Change::kSmall);
}

TEST(CompareRuns, SaysHowManyRunsWouldDo) {
  std::mt19937_64 random(7);
  const auto compared = compare_runs(rows_of(30, 10, 0.03, 0, random), {});
  const auto needed = runs_to_find(0.05, compared[0].spread, 30, {});
  ASSERT_TRUE(needed);
  EXPECT_GT(*needed, 15u);
  EXPECT_LT(*needed, 60u);
  EXPECT_EQ(runs_to_find(0.5, compared[0].spread, 30, {}), 8u);
  EXPECT_FALSE(runs_to_find(0.05, 1, 30, {}));
  EXPECT_FALSE(runs_to_find(0.02, 0.0001, 30, {})) << "the threshold is 2 %";
  // As many runs as it says do find it.
  int found = 0;
  const std::size_t count = *runs_to_find(0.05, 0.03, 30, {});
  for (int i = 0; i < 100; ++i) {
    const auto again = compare_runs(rows_of(30, count, 0.03, std::log1p(-0.05), random), {});
    found += again[0].change == Change::kRegression ? 1 : 0;
  }
  EXPECT_GE(found, 89);
}

}  // namespace
}  // namespace tzmark::bench
