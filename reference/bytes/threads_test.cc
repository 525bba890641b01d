// Tests of helper threads when the system starts fewer than asked for.
#include "bytes/threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <thread>

#include "testing/faults/thread_limit.h"

namespace tzmark {
namespace {

TEST(Threads, AllStartAndAreNumbered) {
  const Shortage before = shortage();
  std::array<std::atomic<int>, 4> calls{};
  {
    const auto threads = start_threads(calls.size(), [&](std::size_t i) { ++calls[i]; });
    EXPECT_EQ(threads.size(), calls.size());
  }
  for (const auto& count : calls) EXPECT_EQ(count, 1);
  EXPECT_EQ(shortage(), before);
}

TEST(Threads, FewerStartWhereTheSystemRefusesThem) {
  for (int limit = 0; limit <= 3; ++limit) {
    const Shortage before = shortage();
    std::array<std::atomic<int>, 5> calls{};
    {
      const test::ThreadLimit few(limit);
      const auto threads = start_threads(calls.size(), [&](std::size_t i) { ++calls[i]; });
      EXPECT_EQ(threads.size(), static_cast<std::size_t>(limit));
      EXPECT_EQ(few.refused(), 1) << "it goes on asking";
    }
    for (int i = 0; i < 5; ++i) EXPECT_EQ(calls[static_cast<std::size_t>(i)], i < limit ? 1 : 0);
    EXPECT_EQ(shortage().threads_missing - before.threads_missing, static_cast<std::uint64_t>(5 - limit));
  }
}

TEST(Threads, AreMovedFromTheCoreOfTheirStarterAndMayRunAnywhereAfterwards) {
  cpu_set_t usable, one, mine;
  ASSERT_EQ(::sched_getaffinity(0, sizeof usable, &usable), 0);
  if (CPU_COUNT(&usable) < 2) GTEST_SKIP() << "one core";
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) GTEST_SKIP() << "the system does not let threads choose cores";
  std::atomic<bool> is_moved = false;
  {
    // It may run on this core only until it is moved.
    std::jthread thread([&] {
      while (!is_moved) std::this_thread::yield();
      EXPECT_EQ(::sched_getaffinity(0, sizeof mine, &mine), 0);
    });
    EXPECT_EQ(::sched_setaffinity(0, sizeof usable, &usable), 0);
    separate_from_caller(thread);
    is_moved = true;
  }
  EXPECT_TRUE(CPU_EQUAL(&mine, &usable));
}

TEST(Threads, StayOnTheOnlyCoreOfAProcess) {
  cpu_set_t usable, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof usable, &usable), 0);
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(::sched_getcpu()), &one);
  if (::sched_setaffinity(0, sizeof one, &one) != 0) GTEST_SKIP() << "the system does not let threads choose cores";
  std::atomic<bool> stays = false;
  {
    const auto threads = start_threads(1, [&](std::size_t) {
      cpu_set_t mine;
      stays = ::sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_EQUAL(&mine, &one) != 0;
    });
  }
  EXPECT_EQ(::sched_setaffinity(0, sizeof usable, &usable), 0);
  EXPECT_TRUE(stays);
}

}  // namespace
}  // namespace tzmark
