// The verdict on planted rates: each ceiling is named where it limits, and at its edge.
#include "tune/ceiling_verdict.h"

#include <gmock/gmock.h>

namespace tzmark::bench {
namespace {

using ::testing::DoubleEq;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kGb = 1e9;
constexpr std::uint64_t kMib = 1 << 20;

std::vector<DevicePoint> flat_at(double rate) {
  return {{kMib, 0.6 * rate}, {4 * kMib, 0.97 * rate}, {16 * kMib, rate}, {64 * kMib, 0.99 * rate}};
}

CeilingRates cold(double codec, double raw, std::vector<DevicePoint> device) {
  CeilingRates rates;
  rates.io = "uring-direct";
  rates.codec = codec;
  rates.raw = raw;
  rates.device = std::move(device);
  return rates;
}

CeilingRates warm(double codec, double raw, double copy) {
  CeilingRates rates;
  rates.is_warm = true;
  rates.io = "pwrite";
  rates.codec = codec;
  rates.raw = raw;
  rates.memory_copy = copy;
  return rates;
}

std::string name(const CeilingRates& rates) {
  const auto verdict = judge_ceiling(rates);
  return verdict ? verdict->name : "none";
}

TEST(CeilingVerdict, DeviceThatDoesNotBecomeFaster) {
  const auto verdict = judge_ceiling(cold(0.96 * kGb, 0.98 * kGb, flat_at(kGb)));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->name, "device");
  EXPECT_THAT(verdict->rate, DoubleEq(0.99 * kGb));
  EXPECT_THAT(verdict->share, DoubleEq(0.96 / 0.99));
  EXPECT_THAT(verdict->text, Not(HasSubstr("burst")));
}

TEST(CeilingVerdict, TheBusToAGpu) {
  CeilingRates rates = warm(41 * kGb, 45 * kGb, 20 * kGb);
  rates.bus = 50 * kGb;
  const auto verdict = judge_ceiling(rates);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->name, "bus");
  EXPECT_THAT(verdict->rate, DoubleEq(50 * kGb));
  EXPECT_THAT(verdict->share, DoubleEq(41.0 / 50));
  rates.codec = 39 * kGb;
  EXPECT_EQ(name(rates), "memory copy");
  // More hashes or threads than raw transfers need are not why a load is slower than they are.
  CeilingRates fast = warm(34 * kGb, 83 * kGb, 90 * kGb);
  fast.bus = 55 * kGb;
  EXPECT_EQ(name(fast), "bus");
  // A slower device is the limit of a load from it.
  CeilingRates slow = cold(0.97 * kGb, kGb, flat_at(kGb));
  slow.bus = 50 * kGb;
  EXPECT_EQ(name(slow), "device");
  slow.bus = kGb;
  slow.device = flat_at(3 * kGb);
  EXPECT_EQ(name(slow), "bus");
}

TEST(CeilingVerdict, FasterThanTheDeviceIsABurst) {
  const auto verdict = judge_ceiling(cold(1.4 * kGb, 1.4 * kGb, flat_at(kGb)));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->name, "device");
  EXPECT_GT(verdict->share, 1.4);
  EXPECT_THAT(verdict->text, HasSubstr("burst"));
}

TEST(CeilingVerdict, PathBelowTheDevice) {
  const auto verdict = judge_ceiling(cold(0.7 * kGb, 0.71 * kGb, flat_at(kGb)));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->name, "path");
  EXPECT_THAT(verdict->rate, DoubleEq(0.71 * kGb));
}

TEST(CeilingVerdict, AServerIsNoDevice) {
  CeilingRates rates;
  rates.io = "http";
  rates.codec = 1e9;
  rates.raw = 1e9;
  rates.server = "curl reaches 1.10 GB/s";
  const auto verdict = judge_ceiling(rates);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->name, "path");
  EXPECT_NE(verdict->text.find("curl reaches 1.10 GB/s"), std::string::npos);
  EXPECT_EQ(verdict->text.find("device"), std::string::npos);
}

TEST(CeilingVerdict, CodecBelowItsPathIsTheProcessor) {
  EXPECT_EQ(name(cold(0.7 * kGb, 0.9 * kGb, flat_at(kGb))), "processor");
  EXPECT_EQ(name(warm(3 * kGb, 4 * kGb, 9 * kGb)), "processor");
}

TEST(CeilingVerdict, RatiosOfNeighborsCountMoreThanThoseOfMedians) {
  CeilingRates rates = warm(3 * kGb, 4 * kGb, 9 * kGb);
  rates.codec_over_raw = {0.98, 0.9, 1.02, 25};
  const auto verdict = judge_ceiling(rates);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->name, "path");
  EXPECT_THAT(verdict->share, DoubleEq(0.98));
}

TEST(CeilingVerdict, TheProcessorIsNamedOnlyIfTheIntervalSaysSo) {
  CeilingRates rates = cold(0.7 * kGb, 0.9 * kGb, flat_at(kGb));
  rates.codec_over_raw = {0.78, 0.7, 0.94, 25};
  EXPECT_EQ(name(rates), "processor");
  rates.codec_over_raw = {0.78, 0.5, 1.1, 6};
  EXPECT_EQ(name(rates), "path");
  rates.codec_over_raw = {0.78, {}, {}, 3};
  EXPECT_EQ(name(rates), "path");
}

TEST(CeilingVerdict, HashingIsSaidWhereItLimits) {
  CeilingRates rates = cold(0.7 * kGb, 0.9 * kGb, flat_at(kGb));
  rates.hashing = 0.75 * kGb;
  const auto verdict = judge_ceiling(rates);
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->name, "processor");
  EXPECT_THAT(verdict->text, HasSubstr("hashing"));
  EXPECT_THAT(verdict->rate, DoubleEq(0.75 * kGb));
  rates.hashing = 3 * kGb;
  EXPECT_THAT(judge_ceiling(rates)->text, Not(HasSubstr("hashing")));
}

TEST(CeilingVerdict, RisingDeviceHasNoKnownLimit) {
  const std::vector<DevicePoint> rising = {{kMib, 0.2 * kGb}, {4 * kMib, 0.5 * kGb}, {16 * kMib, kGb}};
  const auto verdict = judge_ceiling(cold(0.99 * kGb, kGb, rising));
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->name, "bytes in flight");
  EXPECT_FALSE(device_rate_of(rising)->is_flat);
}

TEST(CeilingVerdict, OnePointShowsNoLimit) {
  EXPECT_FALSE(device_rate_of({{kMib, kGb}})->is_flat);
  EXPECT_FALSE(device_rate_of({}).has_value());
}

TEST(CeilingVerdict, DeviceThatBecomesSlowerIsFlat) {
  const auto device = device_rate_of({{kMib, kGb}, {64 * kMib, 0.5 * kGb}});
  ASSERT_TRUE(device);
  EXPECT_TRUE(device->is_flat);
  EXPECT_THAT(device->rate, DoubleEq(kGb));
}

TEST(CeilingVerdict, WarmLoadsEndAtTheCopy) {
  EXPECT_EQ(name(warm(7.5 * kGb, 7.6 * kGb, 9 * kGb)), "memory copy");
  EXPECT_EQ(name(warm(4 * kGb, 4.1 * kGb, 9 * kGb)), "path");
}

TEST(CeilingVerdict, WithoutRatesThereIsNone) {
  EXPECT_EQ(name({}), "none");
  CeilingRates rates;
  rates.codec = kGb;
  EXPECT_EQ(name(rates), "none");
  rates.raw = kGb;
  EXPECT_THAT(judge_ceiling(rates)->text, HasSubstr("not known"));
}

}  // namespace
}  // namespace tzmark::bench
