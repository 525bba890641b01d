// The parts of the budget never exceed it, and samples have a sensible size on slow and on fast storage.
#include "tune/budget.h"

#include <gtest/gtest.h>

namespace tzmark::bench {
namespace {

using namespace std::chrono_literals;

TEST(TuneBudget, PhasesAreInOrderAndEndWithTheShareOfTheTask) {
  const PhaseTimes times = phase_times(120s, 3);
  EXPECT_GT(times.search, 0s);
  EXPECT_LT(times.search, times.ceilings);
  EXPECT_LT(times.ceilings, times.advice);
  EXPECT_LT(times.advice, times.model);
  EXPECT_EQ(times.model, 40s);
}

TEST(TuneBudget, NothingIsLeftOfASpentBudget) {
  EXPECT_EQ(phase_times(-5s, 2).model, 0s);
  EXPECT_EQ(phase_times(10s, 0).model, 10s);
}

TEST(TuneBudget, SamplesTakeFrom10To200Milliseconds) {
  const auto seconds = [](std::uint64_t bytes, double rate) { return static_cast<double>(bytes) / rate; };
  constexpr std::uint64_t kMuch = std::uint64_t{64} << 30;
  for (const double rate : {1e9, 3e9, 20e9}) {
    for (const auto time : {2s, 40s, 600s}) {
      const std::uint64_t bytes = sample_bytes(time, rate, rate, kMuch);
      EXPECT_GE(seconds(bytes, rate), 0.009) << rate;
      EXPECT_LE(seconds(bytes, rate), 0.2) << rate;
    }
  }
  // Fast and slow tasks share one size.
  const std::uint64_t bytes = sample_bytes(40s, 0.5e9, 5e9, kMuch);
  EXPECT_GE(seconds(bytes, 5e9), 0.009);
  EXPECT_LE(seconds(bytes, 0.5e9), 0.21);
}

TEST(TuneBudget, SamplesFitTheRoomAndAreNotTiny) {
  EXPECT_EQ(sample_bytes(40s, 1e6, 1e6, std::uint64_t{1} << 40), kSampleBytesMin);
  EXPECT_EQ(sample_bytes(600s, 50e9, 50e9, std::uint64_t{1} << 28), std::uint64_t{1} << 28);
}

}  // namespace
}  // namespace tzmark::bench
