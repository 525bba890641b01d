// Percentiles compared with sorted samples over the whole range of the histogram.
#include "harness/latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <vector>

namespace tzmark::bench {
namespace {

using std::chrono::nanoseconds;

TEST(Latency, PercentilesAreNearTheSamples) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> nanoseconds_around_a_millisecond(13.8, 1.5);
  std::vector<std::int64_t> samples(20'000);
  LatencyHistogram histogram;
  for (auto& sample : samples) {
    sample = static_cast<std::int64_t>(nanoseconds_around_a_millisecond(random));
    histogram.record(nanoseconds(sample));
  }
  std::ranges::sort(samples);
  EXPECT_EQ(histogram.count(), samples.size());
  for (const double part : {0.001, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(part * static_cast<double>(samples.size())));
    const auto exact = static_cast<double>(samples[rank - 1]);
    const auto told = static_cast<double>(histogram.percentile_ns(part));
    EXPECT_GE(told, exact) << part;
    EXPECT_LE(told, exact * (1 + 1.0 / 32)) << part;
  }
  EXPECT_EQ(histogram.percentile_ns(1), static_cast<std::uint64_t>(samples.back()));
}

TEST(Latency, SmallValuesAreExact) {
  for (std::int64_t ns = 0; ns < 64; ++ns) {
    LatencyHistogram histogram;
    histogram.record(nanoseconds(ns));
    histogram.record(nanoseconds(1'000'000));
    EXPECT_EQ(histogram.percentile_ns(0.5), static_cast<std::uint64_t>(ns));
  }
}

TEST(Latency, EveryValueHasItsBucket) {
  // Around each power of two the bound of the lower of two samples lies within 1/32 above it.
  for (int bit = 0; bit < 63; ++bit) {
    for (const std::int64_t off : {-1, 0, 1}) {
      const std::int64_t ns = (std::int64_t{1} << bit) + off;
      LatencyHistogram histogram;
      histogram.record(nanoseconds(ns));
      histogram.record(nanoseconds::max());
      const std::uint64_t told = histogram.percentile_ns(0.5);
      EXPECT_GE(told, static_cast<std::uint64_t>(ns));
      EXPECT_LE(told - static_cast<std::uint64_t>(ns), static_cast<std::uint64_t>(ns) / 32);
    }
  }
}

TEST(Latency, NegativeCountsAsZero) {
  LatencyHistogram histogram;
  histogram.record(nanoseconds(-5));
  EXPECT_EQ(histogram.percentile_ns(1), 0u);
  EXPECT_EQ(histogram.count(), 1u);
}

TEST(Latency, MergedIsAsIfRecordedInOne) {
  LatencyHistogram one;
  LatencyHistogram other;
  LatencyHistogram both;
  for (int i = 1; i <= 1000; ++i) {
    (i % 3 == 0 ? one : other).record(nanoseconds(i * 977));
    both.record(nanoseconds(i * 977));
  }
  one.merge(other);
  EXPECT_EQ(to_json(one.summary()), to_json(both.summary()));
}

TEST(Latency, IsJson) {
  EXPECT_EQ(to_json(LatencyHistogram().summary()), nullptr);
  EXPECT_EQ(LatencyHistogram().percentile_ns(0.5), 0u);
  LatencyHistogram histogram;
  histogram.record(nanoseconds(20));
  EXPECT_EQ(to_json(histogram.summary()),
            nlohmann::json::parse(R"({"count": 1, "p50": null, "p90": null, "p99": null, "p99_9": null, "max": 20})"));
}

TEST(Latency, PercentilesNeedTenSlowerTransfers) {
  const auto with = [](std::uint64_t count) {
    LatencyHistogram histogram;
    histogram.record(nanoseconds(20), count);
    return histogram.summary();
  };
  EXPECT_FALSE(with(19).p50);
  EXPECT_EQ(with(20).p50, 20u);
  EXPECT_FALSE(with(99).p90);
  EXPECT_EQ(with(100).p90, 20u);
  EXPECT_FALSE(with(999).p99);
  EXPECT_EQ(with(1000).p99, 20u);
  EXPECT_FALSE(with(9'999).p99_9);
  EXPECT_EQ(with(10'000).p99_9, 20u);
}

TEST(Latency, BucketsCountAsTheirTransfers) {
  LatencyHistogram buckets;
  LatencyHistogram one_by_one;
  buckets.record(nanoseconds(0), 0);
  for (const std::uint64_t count : {1, 30, 7}) {
    buckets.record(nanoseconds(count * 1000), count);
    for (std::uint64_t i = 0; i < count; ++i) one_by_one.record(nanoseconds(count * 1000));
  }
  EXPECT_EQ(to_json(buckets.summary()), to_json(one_by_one.summary()));
  buckets.raise_max(31'000);
  buckets.raise_max(5);
  EXPECT_EQ(buckets.max_ns(), 31'000u);
}

}  // namespace
}  // namespace tzmark::bench
