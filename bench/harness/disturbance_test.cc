// Tests of the counters of disturbance, over written-out files and over a process that burns a core.
#include "harness/disturbance.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace tzmark::bench {
namespace {

TEST(Disturbance, ReadsTheTimesOfAllCores) {
  MachineUse use;
  ASSERT_TRUE(parse_stat("cpu  120 5 30 400 10 1 2 7 0 0\ncpu0 60 2 15 200 5 0 1 3 0 0\n", 100, use));
  EXPECT_EQ(use.user_ns, 1'250'000'000U);
  EXPECT_EQ(use.steal_ns, 70'000'000U);
  EXPECT_FALSE(parse_stat("", 100, use));
  EXPECT_FALSE(parse_stat("cpu0 1 2 3\n", 100, use));
}

TEST(Disturbance, ReadsPressure) {
  EXPECT_EQ(parse_pressure("some avg10=99.78 avg60=99.52 avg300=97.40 total=8150864331\nfull avg10=0.00 total=1\n"),
            8'150'864'331'000U);
  EXPECT_FALSE(parse_pressure(""));
  EXPECT_FALSE(parse_pressure("full avg10=0.00 avg60=0.00 avg300=0.00 total=5\n"));
  EXPECT_FALSE(parse_pressure("some avg10=0.00\nfull total=5\n"));
}

TEST(Disturbance, ReadsHowOftenTheHostTookMemory) {
  EXPECT_EQ(parse_memory_reports(R"(           CPU0       CPU1
 31:          0        587 PCI-MSIX-0000:00:01.0   3-edge      virtio0-stats
 32:        798          2 PCI-MSIX-0000:00:01.0   4-edge      virtio0-reporting_vq
NMI:          9          9   Non-maskable interrupts
)"),
            800U);
  EXPECT_EQ(parse_memory_reports(""), 0U);
  EXPECT_EQ(parse_memory_reports("-reporting_vq"), 0U);
  EXPECT_EQ(parse_memory_reports(" 32: 7\n 33: 8 x-reporting_vq"), 8U);
}

TEST(Disturbance, TheRuleIgnoresTicksAndSmallShares) {
  EXPECT_FALSE(is_disturbed({}));
  EXPECT_FALSE(is_disturbed({.elapsed_ns = 10'000'000, .other_user_ns = 20'000'000}));
  EXPECT_FALSE(is_disturbed({.elapsed_ns = 1'000'000'000, .other_user_ns = 90'000'000}));
  EXPECT_TRUE(is_disturbed({.elapsed_ns = 1'000'000'000, .other_user_ns = 110'000'000}));
  EXPECT_TRUE(is_disturbed({.elapsed_ns = 100'000'000, .steal_ns = 30'000'000}));
  // It comes with the memory that a subject itself frees, and more often in slow samples.
  EXPECT_FALSE(is_disturbed({.elapsed_ns = 1'000'000'000, .memory_reports = 1}));
}

TEST(Disturbance, AddsUp) {
  Disturbance sum{.elapsed_ns = 1,
                  .other_user_ns = 2,
                  .steal_ns = 3,
                  .involuntary_switches = 4,
                  .minor_faults = 5,
                  .memory_reports = 6};
  sum += {.elapsed_ns = 10,
          .other_user_ns = 20,
          .steal_ns = 30,
          .cpu_pressure_ns = 6,
          .minor_faults = 50,
          .memory_reports = 60};
  EXPECT_EQ(sum.elapsed_ns, 11U);
  EXPECT_EQ(sum.other_user_ns, 22U);
  EXPECT_EQ(sum.steal_ns, 33U);
  EXPECT_EQ(sum.cpu_pressure_ns, 6U);
  EXPECT_FALSE(sum.io_pressure_ns);
  EXPECT_EQ(sum.minor_faults, 55U);
  EXPECT_EQ(sum.memory_reports, 66U);
}

TEST(Disturbance, AnotherProcessIsSeen) {
  const auto burn = [](std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) {
    }
  };
  // Its user time counts as ours only once it has been waited for.
  const pid_t other = ::fork();
  ASSERT_GE(other, 0);
  if (other == 0) {
    volatile std::uint64_t number = 0;
    for (;;) number = number + 1;
  }
  const DisturbanceWatch watch;
  burn(std::chrono::milliseconds(300));
  const Disturbance seen = watch.stop();
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  EXPECT_GT(seen.other_user_ns, 30'000'000U);
  EXPECT_TRUE(is_disturbed(seen));
  EXPECT_GE(seen.elapsed_ns, 300'000'000U);
  // The processor time of helpers of the subject is no disturbance.
  EXPECT_EQ(watch.stop(1'000'000'000'000).other_user_ns, 0U);
}

}  // namespace
}  // namespace tzmark::bench
