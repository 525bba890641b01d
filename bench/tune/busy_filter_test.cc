// A machine that is always busy is measured as it is; one that is busy for a moment is not.
#include "tune/busy_filter.h"

#include <gtest/gtest.h>

namespace tzmark::bench {
namespace {

using namespace std::chrono_literals;

// How many of so many disturbed samples in a row are refused.
int refused(int samples, std::chrono::nanoseconds length) {
  BusyFilter filter;
  int count = 0;
  for (int i = 0; i < samples; ++i) count += filter.counts(true, length) ? 0 : 1;
  return count;
}

TEST(BusyFilter, UndisturbedSamplesCount) {
  BusyFilter filter;
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(filter.counts(false, 50ms));
  EXPECT_FALSE(filter.was_busy());
  EXPECT_EQ(filter.samples(), 100);
  EXPECT_EQ(filter.disturbed_samples(), 0);
}

TEST(BusyFilter, AlwaysBusyMachinesAreMeasuredAfterAWhile) {
  EXPECT_EQ(refused(100, 10ms), 39);
  EXPECT_EQ(refused(100, 1s), 5);
  EXPECT_EQ(refused(100, 5s), 4);
}

TEST(BusyFilter, AMomentDoesNotMakeAMachineBusy) {
  BusyFilter filter;
  for (int i = 0; i < 40; ++i) static_cast<void>(filter.counts(false, 100ms));
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(filter.counts(true, 100ms));
  EXPECT_TRUE(filter.counts(false, 100ms));
  EXPECT_FALSE(filter.was_busy());
  EXPECT_EQ(filter.disturbed_samples(), 20);
}

TEST(BusyFilter, AMachineThatCalmsDownIsNoLongerBusy) {
  BusyFilter filter;
  for (int i = 0; i < 40; ++i) static_cast<void>(filter.counts(true, 100ms));
  EXPECT_TRUE(filter.was_busy());
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(filter.counts(false, 100ms));
  EXPECT_FALSE(filter.counts(true, 100ms));
}

}  // namespace
}  // namespace tzmark::bench
