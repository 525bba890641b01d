// The model of times: what it recovers, what it refuses, and how often its interval contains the truth.
#include "tune/cost_model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace tzmark::bench {
namespace {

constexpr double kOpenS = 2e-3;
constexpr double kPerTensorS = 3e-5;
constexpr double kPerByteS = 4e-10;

double planted_seconds(std::uint64_t tensors, std::uint64_t bytes) {
  return kOpenS + kPerTensorS * static_cast<double>(tensors) + kPerByteS * static_cast<double>(bytes);
}

CostPoint point(std::uint64_t tensors, std::uint64_t bytes, double factor = 1) {
  return {tensors, bytes, std::vector<double>(3, factor * planted_seconds(tensors, bytes))};
}

// Few and many tensors, small and large, as in the workloads.
std::vector<CostPoint> planted_points() {
  return {point(148, 500 << 20),   point(1, 64 << 20), point(20'000, 20 << 20), point(300, 250 << 20),
          point(2'500, 100 << 20), point(1, 1 << 20),  point(5'000, 400 << 20)};
}

TEST(CostModel, RecoversTheCostsWithoutNoise) {
  const auto model = CostModel::fit(planted_points());
  ASSERT_TRUE(model);
  EXPECT_NEAR(model->open_s(), kOpenS, 1e-9);
  EXPECT_NEAR(model->per_tensor_s(), kPerTensorS, 1e-12);
  EXPECT_NEAR(model->per_byte_s(), kPerByteS, 1e-17);
  EXPECT_LT(model->spread(), 1e-9);
  const CostPrediction predicted = model->predict(291, std::uint64_t{16} << 30);
  EXPECT_NEAR(predicted.seconds, planted_seconds(291, std::uint64_t{16} << 30), 1e-6);
}

TEST(CostModel, IgnoresAnOutlierButSaysSo) {
  std::vector<CostPoint> points = planted_points();
  points[3] = point(300, 250 << 20, 1.6);
  const auto model = CostModel::fit(points);
  ASSERT_TRUE(model);
  EXPECT_NEAR(model->per_byte_s(), kPerByteS, 0.05 * kPerByteS);
  EXPECT_GT(model->spread(), 0.1);
}

TEST(CostModel, HasNoNegativeCosts) {
  std::vector<CostPoint> points;
  for (const std::uint64_t mib : {1, 2, 4, 8, 16}) {
    const std::uint64_t bytes = mib << 20;
    // Larger files are slower per byte: a line through them would begin below 0.
    points.push_back({mib % 3 + 1, bytes, {1e-10 * std::pow(static_cast<double>(bytes), 1.1)}});
  }
  const auto model = CostModel::fit(points);
  ASSERT_TRUE(model);
  EXPECT_GE(model->open_s(), 0);
  EXPECT_GE(model->per_tensor_s(), 0);
  EXPECT_GT(model->per_byte_s(), 0);
}

TEST(CostModel, RefusesWhatDoesNotTellTheCostsApart) {
  std::vector<CostPoint> points = planted_points();
  points.resize(3);
  EXPECT_FALSE(CostModel::fit(points));
  points.clear();
  for (const std::uint64_t tensors : {1, 10, 100, 1000, 5000}) points.push_back(point(tensors, tensors << 20));
  EXPECT_FALSE(CostModel::fit(points));
}

TEST(CostModel, KnowsStudentsDistribution) {
  EXPECT_NEAR(student_t_quantile(1, 0.05), 12.7062, 1e-3);
  EXPECT_NEAR(student_t_quantile(2, 0.05), 4.30265, 1e-4);
  EXPECT_NEAR(student_t_quantile(3, 0.05), 3.18245, 1e-4);
  EXPECT_NEAR(student_t_quantile(5, 0.01), 4.03214, 1e-4);
  EXPECT_NEAR(student_t_quantile(10, 0.05), 2.22814, 1e-4);
  EXPECT_NEAR(student_t_quantile(1000, 0.05), 1.96234, 1e-4);
}

// Each workload has its own error, each sample another one. Returns how often the interval contains the median time of
// a workload that the fit has not seen.
double coverage_of(const std::function<double(std::mt19937_64&)>& error, std::size_t points_used) {
  constexpr int kRuns = 4000;
  std::mt19937_64 random(22);
  std::normal_distribution<double> normal;
  int inside = 0;
  for (int run = 0; run < kRuns; ++run) {
    std::vector<CostPoint> points = planted_points();
    points.resize(points_used);
    for (CostPoint& one : points) {
      const double of_workload = std::exp(error(random));
      for (double& seconds : one.seconds) seconds *= of_workload * std::exp(0.02 * normal(random));
    }
    const std::uint64_t tensors = run % 2 == 0 ? 291 : 3'000;
    const std::uint64_t bytes = run % 3 == 0 ? std::uint64_t{16} << 30 : std::uint64_t{50} << 20;
    const auto model = CostModel::fit(points);
    if (!model) continue;
    const CostPrediction predicted = model->predict(tensors, bytes);
    const double truth = planted_seconds(tensors, bytes) * std::exp(error(random));
    inside += predicted.low <= truth && truth <= predicted.high ? 1 : 0;
  }
  return static_cast<double>(inside) / kRuns;
}

TEST(CostModel, IntervalContainsTheTruthAsOftenAsItSays) {
  const auto normal = [](std::mt19937_64& random) { return 0.05 * std::normal_distribution<double>()(random); };
  const auto heavy = [](std::mt19937_64& random) { return 0.03 * std::student_t_distribution<double>(2.5)(random); };
  for (const std::size_t points : {4, 5, 7}) {
    EXPECT_GE(coverage_of(normal, points), 0.95) << points;
    EXPECT_GE(coverage_of(heavy, points), 0.95) << points;
  }
}

// An interval that is always right would be of no use.
TEST(CostModel, IntervalIsNotEverything) {
  std::mt19937_64 random(5);
  std::vector<CostPoint> points = planted_points();
  for (CostPoint& one : points) {
    const double factor = std::exp(0.02 * std::normal_distribution<double>()(random));
    for (double& seconds : one.seconds) seconds *= factor;
  }
  const auto model = CostModel::fit(points);
  ASSERT_TRUE(model);
  const CostPrediction predicted = model->predict(300, 300 << 20);
  EXPECT_LT((predicted.high - predicted.low) / predicted.seconds, 0.4);
  EXPECT_GT(predicted.high, predicted.low);
  const CostPrediction wider = model->predict(300, 300 << 20, 0.99);
  EXPECT_GT(wider.high - wider.low, predicted.high - predicted.low);
}

}  // namespace
}  // namespace tzmark::bench
