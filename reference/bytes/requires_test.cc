// Preconditions: checked in builds for development, and only compiled in the others.
#include "bytes/requires.h"

#include <gtest/gtest.h>

#include <array>

#include "bytes/cursor.h"

namespace tzmark {
namespace {

#if defined(TZMARK_CHECK_REQUIRES)
constexpr bool kChecked = true;
#else
constexpr bool kChecked = false;
#endif

TEST(RequiresTest, EvaluatesTheConditionOnceOrNever) {
  int evaluated = 0;
  TZMARK_REQUIRES(++evaluated > 0);
  EXPECT_EQ(evaluated, kChecked ? 1 : 0);
}

TEST(RequiresDeathTest, AFalseConditionAbortsWithItsTextAndPlace) {
  if (!kChecked) GTEST_SKIP() << "this build does not check preconditions";
  EXPECT_DEATH(TZMARK_REQUIRES(1 + 1 == 3), "requires_test\\.cc:[0-9]+: REQUIRES 1 \\+ 1 == 3");
}

TEST(RequiresDeathTest, LoadingPastTheEndAborts) {
  if (!kChecked) GTEST_SKIP() << "this build does not check preconditions";
  const std::array<std::byte, 8> bytes{};
  EXPECT_EQ(load<std::uint32_t>(bytes, 4), 0U);
  EXPECT_DEATH(load<std::uint32_t>(bytes, 5), "REQUIRES");
}

}  // namespace
}  // namespace tzmark
