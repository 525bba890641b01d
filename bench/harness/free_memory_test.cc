// Free memory is touched on all cores, and given back.
#include "harness/free_memory.h"

#include <gtest/gtest.h>
#include <sched.h>
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
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const std::size_t before = resident_bytes();
  PeakMemory peak;
  EXPECT_TRUE(touch_free_memory(16 << 20));
  EXPECT_GE(peak.stop().resident_bytes, 15U << 20) << "it was touched";
  EXPECT_LT(resident_bytes(), before + (15U << 20));
  cpu_set_t now;
  ASSERT_EQ(::sched_getaffinity(0, sizeof now, &now), 0);
  EXPECT_TRUE(CPU_EQUAL(&allowed, &now)) << "the caller keeps its cores";
  EXPECT_TRUE(touch_free_memory(8 << 20)) << "although it was just touched";
}

TEST(TouchFreeMemory, TouchesNothingForNothing) { EXPECT_FALSE(touch_free_memory(0)); }

TEST(TouchFreeMemory, IsDoneOnceForALoadWithoutPauses) {
  {
    const MemoryTouchedOnce once;
    EXPECT_TRUE(touch_free_memory(70 << 20));
    EXPECT_FALSE(touch_free_memory(70 << 20)) << "although the host may reclaim it by now";
    EXPECT_TRUE(touch_free_memory(71 << 20));
  }
  {
    const MemoryTouchedOnce once(70 << 20);
    EXPECT_FALSE(touch_free_memory(70 << 20));
  }
  EXPECT_TRUE(touch_free_memory(70 << 20));
}

}  // namespace
}  // namespace tzmark::bench
