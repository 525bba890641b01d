// The limit of a result, from subjects whose rates are made up.
#include "cli/bounds.h"

#include <gtest/gtest.h>

#include "harness/ceilings.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kBytesPerSample = 1'000'000'000;
constexpr unsigned kThreads = 4;

class SubjectWithSamples final : public Subject {
 public:
  explicit SubjectWithSamples(RunDescription description) { description_ = std::move(description); }
  Sample run() override { return {}; }
};

class Bounds : public testing::Test {
 protected:
  // gigabytes_per_second: of each round.
  Measured& add(RunDescription description, const std::vector<double>& gigabytes_per_second) {
    description.bytes = kBytesPerSample;
    Measured measured{std::make_unique<SubjectWithSamples>(std::move(description)), {}, {}};
    for (const double rate : gigabytes_per_second) {
      Sample sample;
      sample.elapsed_ns = static_cast<std::uint64_t>(1e9 / rate);
      measured.samples.push_back(sample);
    }
    all_.push_back(std::move(measured));
    return all_.back();
  }

  void add_ceiling(Rung rung, unsigned threads, const std::vector<double>& rates) {
    RunDescription d;
    d.subject = "ceiling";
    d.detail = rung_name(rung);
    d.threads = threads;
    add(d, rates);
  }

  static RunDescription read_of(std::string subject, std::string io, Cache cache) {
    RunDescription d;
    d.subject = std::move(subject);
    d.io_actual = std::move(io);
    d.cache = cache;
    d.threads = kThreads;
    d.largest_tensor_bytes = kBytesPerSample / 100;
    return d;
  }

  std::vector<Measured> all_;
};

TEST_F(Bounds, OneTensorIsHashedByOneThread) {
  RunDescription codec = read_of("codec", "pwrite", Cache::kWarm);
  codec.verification = "sha256";
  codec.largest_tensor_bytes = kBytesPerSample;
  add(codec, {0.97, 0.97});
  add(read_of("raw", "pwrite", Cache::kWarm), {10, 10});
  add_ceiling(Rung::kSha256, kThreads, {4, 4});
  add_ceiling(Rung::kSha256, 1, {1, 1});
  const Bound bound = bound_by(all_.front(), all_).value();
  EXPECT_EQ(bound.rung, "sha256");
  EXPECT_NEAR(bound.rate, 1e9, 1e6) << "the other threads read meanwhile";
  EXPECT_NEAR(bound.share, 0.97, 0.01);
  EXPECT_FALSE(bound.low) << "two rounds give no interval";
}

TEST_F(Bounds, BesideADeviceTheSlowerPartCounts) {
  RunDescription codec = read_of("codec", "direct", Cache::kDirect);
  codec.verification = "both";
  add(codec, {1.8});
  add(read_of("raw", "direct", Cache::kDirect), {2});
  add_ceiling(Rung::kSha256, kThreads, {1});
  add_ceiling(Rung::kSha256Lanes, kThreads, {4});
  add_ceiling(Rung::kCrc32, kThreads, {40});
  const Bound bound = bound_by(all_.front(), all_).value();
  EXPECT_EQ(bound.rung, "path-read/direct");
  EXPECT_NEAR(bound.rate, 2e9, 1e6);
  EXPECT_NEAR(bound.share, 0.9, 0.01);
}

TEST_F(Bounds, ManyTensorsAreHashedSideBySide) {
  EXPECT_EQ(hashing_rung(4, 100, 100).rung, Rung::kSha256);
  EXPECT_EQ(hashing_rung(4, 100, 100).threads, 1u);
  EXPECT_EQ(hashing_rung(4, 300, 100).threads, 3u);
  EXPECT_EQ(hashing_rung(4, 700, 100).rung, Rung::kSha256);
  EXPECT_EQ(hashing_rung(4, 800, 100).rung, Rung::kSha256Lanes);
  EXPECT_EQ(hashing_rung(4, 800, 100).threads, 4u);
}

TEST_F(Bounds, TheIntervalIsThatOfTheRatiosWithinRounds) {
  // The machine drifts by half, but codec and path drift together.
  std::vector<double> codec, path;
  for (int i = 0; i < 8; ++i) {
    path.push_back(10.0 - 0.5 * i);
    codec.push_back(0.9 * path.back() * (i % 2 == 0 ? 1.01 : 0.99));
  }
  add(read_of("codec", "pwrite", Cache::kWarm), codec);
  add(read_of("raw", "pwrite", Cache::kWarm), path);
  const Bound bound = bound_by(all_.front(), all_).value();
  EXPECT_NEAR(bound.share, 0.9, 0.01);
  EXPECT_NEAR(bound.low.value(), 0.89, 0.01);
  EXPECT_NEAR(bound.high.value(), 0.91, 0.01);
}

TEST_F(Bounds, WithoutItsPathAReadFromTheCacheIsACopy) {
  add(read_of("codec", "pwrite", Cache::kWarm), {5});
  add_ceiling(Rung::kMemcpy, kThreads, {10});
  EXPECT_EQ(bound_by(all_.front(), all_).value().rung, "memcpy");
}

TEST_F(Bounds, OthersThanTheCodecHaveNone) {
  add(read_of("raw", "pwrite", Cache::kWarm), {10});
  add(read_of("codec", "direct", Cache::kDirect), {10});
  EXPECT_FALSE(bound_by(all_[0], all_));
  EXPECT_FALSE(bound_by(all_[1], all_)) << "nothing that it consists of was measured";
}

}  // namespace
}  // namespace tzmark::bench
