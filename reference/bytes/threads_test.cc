// Tests of helper threads when the system starts fewer than asked for.
#include "bytes/threads.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>

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

}  // namespace
}  // namespace tzmark
