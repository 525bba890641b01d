// The orders that are tried are all there are, and mistakes that only some order shows are found.
#include "testing/threads/interleavings.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace tzmark::test {
namespace {

// Threads that take one mutex so many times each.
std::set<std::string> orders_of(const std::vector<unsigned>& times, const InterleavingOptions& options,
                                InterleavingCounts& counts) {
  std::set<std::string> seen;
  counts = explore_interleavings(options, [&] {
    std::string order;
    std::mutex mutex;
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < times.size(); ++i) {
      threads.emplace_back([&, i] {
        for (unsigned k = 0; k < times[i]; ++k) {
          const std::lock_guard lock(mutex);
          order += static_cast<char>('a' + i);
        }
      });
    }
    threads.clear();
    seen.insert(order);
  });
  return seen;
}

TEST(Interleavings, TriesEachOrderOfCriticalSections) {
  InterleavingCounts counts;
  EXPECT_EQ(orders_of({3, 3}, {}, counts).size(), 20U);  // 6 over 3
  EXPECT_TRUE(counts.is_complete);
  EXPECT_EQ(orders_of({2, 1, 1}, {}, counts).size(), 12U);  // 4! / 2!
  EXPECT_TRUE(counts.is_complete);
}

TEST(Interleavings, InterruptsNoMoreThanAllowed) {
  InterleavingCounts counts;
  EXPECT_EQ(orders_of({3, 3}, {.interruptions_max = 0}, counts), (std::set<std::string>{"aaabbb", "bbbaaa"}));
  EXPECT_TRUE(counts.is_complete);
  const std::set<std::string> once = orders_of({3, 3}, {.interruptions_max = 1}, counts);
  EXPECT_TRUE(once.contains("abbbaa"));
  EXPECT_FALSE(once.contains("ababab"));
}

TEST(Interleavings, EndsAfterTheMostRuns) {
  InterleavingCounts counts;
  orders_of({3, 3}, {.runs_max = 5}, counts);
  EXPECT_EQ(counts.runs, 5U);
  EXPECT_FALSE(counts.is_complete);
}

TEST(Interleavings, TriesEachStateOnce) {
  unsigned a = 0, b = 0;
  std::set<unsigned> products;
  const InterleavingCounts counts =
      explore_interleavings({.state = [&] { return std::to_string(a) + "," + std::to_string(b); }}, [&] {
        a = b = 0;
        std::mutex mutex;
        const auto count = [&](unsigned& mine, unsigned& other) {
          for (int k = 0; k < 6; ++k) {
            const std::lock_guard lock(mutex);
            ++mine;
            products.insert(10 * mine + other);
          }
        };
        const std::jthread one([&] { count(a, b); });
        count(b, a);
      });
  EXPECT_TRUE(counts.is_complete);
  // Not 924 orders: two counters of 0 to 6.
  EXPECT_LT(counts.runs, 100U);
  for (unsigned mine = 1; mine <= 6; ++mine) {
    for (unsigned other = 0; other <= 6; ++other) EXPECT_TRUE(products.contains(10 * mine + other));
  }
}

TEST(Interleavings, SignalsAndTimesEndWaits) {
  std::set<bool> timed_out;
  const InterleavingCounts counts = explore_interleavings({}, [&] {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_ready = false;
    const std::jthread other([&] {
      const std::lock_guard lock(mutex);
      is_ready = true;
      changed.notify_all();
    });
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_ready; });
    timed_out.insert(changed.wait_for(lock, std::chrono::nanoseconds(1)) == std::cv_status::timeout);
  });
  EXPECT_TRUE(counts.is_complete);
  EXPECT_EQ(timed_out, std::set<bool>{true});
}

TEST(Interleavings, WaitsMayEndWithoutASignal) {
  std::set<bool> ready;
  const auto body = [&] {
    std::mutex mutex;
    std::condition_variable changed;
    bool is_ready = false;
    const std::jthread other([&] {
      const std::lock_guard lock(mutex);
      is_ready = true;
      changed.notify_one();
    });
    std::unique_lock lock(mutex);
    if (!is_ready) changed.wait(lock);
    ready.insert(is_ready);
  };
  explore_interleavings({}, body);
  EXPECT_EQ(ready, std::set<bool>{true});
  explore_interleavings({.early_wakes_max = 1}, body);
  EXPECT_EQ(ready, (std::set<bool>{false, true}));
}

// Signals before the other waits, in some order.
void lose_a_signal() {
  std::mutex mutex;
  std::condition_variable changed;
  const std::jthread other([&] {
    const std::lock_guard lock(mutex);
    changed.notify_one();
  });
  std::unique_lock lock(mutex);
  changed.wait(lock);
}

TEST(InterleavingsDeathTest, FindsALostSignal) {
  EXPECT_EXIT(explore_interleavings({}, lose_a_signal), ::testing::ExitedWithCode(kDeadlockStatus),
              "thread 0 waits for a signal");
}

void lock_crosswise() {
  std::mutex first, second;
  const std::jthread other([&] {
    const std::lock_guard one(second);
    const std::lock_guard two(first);
  });
  const std::lock_guard one(first);
  const std::lock_guard two(second);
}

TEST(InterleavingsDeathTest, FindsMutexesInTwoOrders) {
  EXPECT_EXIT(explore_interleavings({}, lock_crosswise), ::testing::ExitedWithCode(kDeadlockStatus),
              "thread 1 waits for a mutex");
}

}  // namespace
}  // namespace tzmark::test
