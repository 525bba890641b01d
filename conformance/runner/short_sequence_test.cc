// Tests of the search for a short sequence.
#include "runner/short_sequence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace tzmark::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Steps = std::vector<std::size_t>;

// Fails if these steps come in this order, with any others between them.
FailsAfter after(Steps wanted, std::size_t& tries) {
  return [wanted = std::move(wanted), &tries](const Steps& steps) {
    ++tries;
    auto at = steps.begin();
    return std::ranges::all_of(wanted, [&](std::size_t step) {
      at = std::find(at, steps.end(), step);
      return at != steps.end();
    });
  };
}

ShortSequence search(std::size_t count, const Steps& wanted, std::size_t& tries) {
  return find_short_sequence(count, after(wanted, tries), std::chrono::hours(1));
}

TEST(ShortSequence, FindsOneStepInFewTries) {
  for (const std::size_t wanted : {0, 1, 499, 998, 999}) {
    std::size_t tries = 0;
    const ShortSequence found = search(1000, {wanted}, tries);
    EXPECT_THAT(found.steps, ElementsAre(wanted));
    EXPECT_TRUE(found.shortest);
    EXPECT_LE(tries, 24u);
  }
}

TEST(ShortSequence, FindsSeveralSteps) {
  std::size_t tries = 0;
  EXPECT_THAT(search(1000, {17, 18, 900}, tries).steps, ElementsAre(17, 18, 900));
  EXPECT_THAT(search(1, {0}, tries).steps, ElementsAre(0));
  EXPECT_THAT(search(4, {0, 1, 2, 3}, tries).steps, ElementsAre(0, 1, 2, 3));
  EXPECT_LE(tries, 120u);
}

TEST(ShortSequence, IsEmptyIfItDoesNotFailAgain) {
  std::size_t tries = 0;
  const ShortSequence found = search(100, {100}, tries);
  EXPECT_THAT(found.steps, IsEmpty());
  EXPECT_EQ(tries, 8u);
}

TEST(ShortSequence, StopsInTime) {
  const auto slow = [](const Steps& steps) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return std::ranges::find(steps, 3u) != steps.end();
  };
  const ShortSequence none = find_short_sequence(1000, slow, std::chrono::nanoseconds(0));
  EXPECT_EQ(none.steps.size(), 1000u);
  EXPECT_FALSE(none.shortest);
  // Enough for the suffixes, and not for what follows.
  const ShortSequence some = find_short_sequence(1000, slow, std::chrono::milliseconds(250));
  EXPECT_FALSE(some.shortest);
  EXPECT_THAT(some.steps, ::testing::Contains(3u));
}

}  // namespace
}  // namespace tzmark::conformance
