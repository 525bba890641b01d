// Free memory is touched, unless memory that was held until now has just become free.
#include "harness/free_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "harness/peak_memory.h"

namespace tzmark::bench {
namespace {

std::size_t resident_bytes() {
  std::size_t size = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> size >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

TEST(EmptyHeap, GivesBackWhatFreedChunksHold) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers have a heap of their own";
#endif
  std::vector<std::string> chunks(64 << 10, std::string(1000, 'x'));
  // The last chunk keeps the heap from shrinking by itself.
  chunks.erase(chunks.begin(), chunks.end() - 1);
  const std::size_t before = resident_bytes();
  empty_heap();
  EXPECT_LT(resident_bytes() + (56 << 20), before);
}

TEST(TouchFreeMemory, GivesBackWhatItTook) {
  PeakMemory peak;
  EXPECT_EQ(touch_free_memory(64 << 20), 64U << 20);
  EXPECT_GE(peak.stop().resident_bytes, 60U << 20) << "it was touched";
  EXPECT_EQ(touch_free_memory(32 << 20), 32U << 20) << "although it was just touched";
}

TEST(TouchFreeMemory, IsDoneOnceForALoadWithoutPauses) {
  {
    const MemoryTouchedOnce once;
    EXPECT_EQ(touch_free_memory(70 << 20), 70U << 20);
    EXPECT_EQ(touch_free_memory(70 << 20), 0U) << "although the host may reclaim it by now";
    EXPECT_EQ(touch_free_memory(71 << 20), 71U << 20);
  }
  {
    const MemoryTouchedOnce once(70 << 20);
    EXPECT_EQ(touch_free_memory(70 << 20), 0U);
  }
  EXPECT_EQ(touch_free_memory(70 << 20), 70U << 20);
}

TEST(HoldMemory, LastsUntilTheNextTouch) {
  const auto memory = std::make_shared<int>(1);
  hold_memory(memory, 64 << 20);
  EXPECT_EQ(memory.use_count(), 2);
  EXPECT_EQ(touch_free_memory(64 << 20), 0U) << "the held memory is free now";
  EXPECT_EQ(memory.use_count(), 1);
  EXPECT_EQ(touch_free_memory(64 << 20), 64U << 20) << "it was freed before";
}

TEST(HoldMemory, IsNotEnoughForMore) {
  const auto memory = std::make_shared<int>(1);
  hold_memory(memory, 60 << 20);
  EXPECT_EQ(touch_free_memory(64 << 20), 0U);
  hold_memory(memory, 59 << 20);
  EXPECT_EQ(touch_free_memory(64 << 20), 64U << 20);
  EXPECT_EQ(memory.use_count(), 1);
}

TEST(HoldMemory, ReplacesWhatWasHeld) {
  const auto first = std::make_shared<int>(1);
  hold_memory(first, 64 << 20);
  hold_memory(nullptr, 0);
  EXPECT_EQ(first.use_count(), 1);
}

}  // namespace
}  // namespace tzmark::bench
