// Each rung gives a plausible rate on any number of threads.
#include "harness/ceilings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "testing/faults/thread_limit.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

class EveryRung : public testing::TestWithParam<Rung> {};

TEST_P(EveryRung, HasARate) {
  for (const unsigned threads : {1U, 3U}) {
    // Limits that every machine meets.
    Ladder ladder(threads, 3 << 20);
    for (int i = 0; i < 2; ++i) {
      const double rate = ladder.measure(GetParam(), std::chrono::milliseconds(5));
      EXPECT_GT(rate, 1e6);
      EXPECT_LT(rate, 1e15);
    }
  }
}

TEST_P(EveryRung, TakesAboutTheTimeItIsGiven) {
  Ladder ladder(1, 100);
  const auto begin = std::chrono::steady_clock::now();
  ladder.measure(GetParam(), std::chrono::milliseconds(50));
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
}

std::string name_of_test(const testing::TestParamInfo<Rung>& test) {
  std::string name(rung_name(test.param));
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, EveryRung, testing::ValuesIn(kRungs), name_of_test);

TEST(Ceilings, TakeAPartOfTheMemoryThatACgroupAllows) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto limited = [](std::uint64_t bytes) {
    return CgroupLimits{.cpu_cores = {}, .memory_bytes = bytes, .memory_left_bytes = bytes};
  };
  EXPECT_EQ(working_set_bytes(64, {}), kWorkingSetBytes);
  EXPECT_EQ(working_set_bytes(2, limited(2048 * kMiB)), kWorkingSetBytes);
  EXPECT_EQ(working_set_bytes(2, limited(400 * kMiB)), 24 * kMiB);
  EXPECT_EQ(working_set_bytes(64, limited(400 * kMiB)), 2 * kMiB);
}

TEST(Ceilings, FewerThreadsThanAskedForAreAnError) {
  for (const int limit : {0, 1}) {
    const test::ThreadLimit few(limit);
    EXPECT_THROW(Ladder(3, 1 << 20).measure(Rung::kCrc32, std::chrono::milliseconds(1)), Error);
  }
}

TEST(Ceilings, NoMemoryIsAnError) { EXPECT_THROW(Ladder(2, std::size_t{1} << 60), Error); }

}  // namespace
}  // namespace tzmark::bench
