// A machine that is always busy is measured as it is; one that is busy for a moment is not.
#include "measure/disturbance_filter.h"

#include <gtest/gtest.h>

namespace tzmark::bench {
namespace {

using namespace std::chrono_literals;

class DisturbanceFilterTest : public testing::Test {
 protected:
  // Adds so many laps of one length, and returns how many of them do not count.
  int refused(int laps, std::chrono::nanoseconds length, bool is_disturbed) {
    const auto elapsed_ns = static_cast<std::uint64_t>(length.count());
    const Disturbance lap = {.elapsed_ns = elapsed_ns, .steal_ns = is_disturbed ? elapsed_ns : 0};
    int count = 0;
    for (int i = 0; i < laps; ++i) {
      filter_.add(lap);
      count += filter_.counts(lap) ? 0 : 1;
    }
    return count;
  }

  DisturbanceFilter filter_{[](const Disturbance& lap) { return lap.steal_ns > 0; }};
};

TEST_F(DisturbanceFilterTest, UndisturbedLapsCount) {
  EXPECT_EQ(refused(100, 50ms, false), 0);
  EXPECT_FALSE(filter_.conditions().was_busy);
  EXPECT_EQ(filter_.conditions().laps, 100U);
  EXPECT_EQ(filter_.conditions().disturbed_laps, 0U);
  EXPECT_EQ(conditions_text(filter_.conditions()), "");
}

TEST_F(DisturbanceFilterTest, AlwaysBusyMachinesAreMeasuredAfterAWhile) {
  EXPECT_EQ(refused(100, 10ms, true), 30);
  EXPECT_TRUE(filter_.conditions().was_busy);
  EXPECT_EQ(conditions_text(filter_.conditions()),
            "100 of 100 laps were disturbed by other processes or the hypervisor; the machine was busy, so that they "
            "had to count\n");
}

TEST_F(DisturbanceFilterTest, SixSecondsSufficeIfTheyHaveFiveLaps) { EXPECT_EQ(refused(100, 1s, true), 5); }

TEST_F(DisturbanceFilterTest, FiveLapsAreTheLeast) { EXPECT_EQ(refused(100, 5s, true), 4); }

TEST_F(DisturbanceFilterTest, AMomentDoesNotMakeAMachineBusy) {
  EXPECT_EQ(refused(40, 100ms, false), 0);
  EXPECT_EQ(refused(20, 100ms, true), 20);
  EXPECT_EQ(refused(1, 100ms, false), 0);
  EXPECT_FALSE(filter_.conditions().was_busy);
  EXPECT_EQ(filter_.conditions().disturbed_laps, 20U);
}

TEST_F(DisturbanceFilterTest, AMachineThatCalmsDownIsNoLongerBusy) {
  refused(40, 100ms, true);
  EXPECT_TRUE(filter_.is_busy());
  EXPECT_EQ(refused(40, 100ms, false), 0);
  EXPECT_EQ(refused(1, 100ms, true), 1);
  EXPECT_TRUE(filter_.conditions().was_busy);
}

}  // namespace
}  // namespace tzmark::bench
