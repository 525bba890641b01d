// What a process writes into core dumps.
#include "remote/core_dumps.h"

#include <gtest/gtest.h>

#include <fstream>

namespace tzmark {
namespace {

constexpr const char* kFilter = "/proc/self/coredump_filter";

unsigned filter() {
  unsigned value = ~0U;
  std::ifstream(kFilter) >> std::hex >> value;
  return value;
}

TEST(CoreDumps, HaveNoMemoryUntilSomeoneAsksForIt) {
  const unsigned before = filter();
  if (before == ~0U) GTEST_SKIP() << "no " << kFilter;
  exclude_memory_from_core_dumps();
  EXPECT_EQ(filter(), 0U);
  std::ofstream(kFilter) << "0x33";
  exclude_memory_from_core_dumps();
  EXPECT_EQ(filter(), 0x33U);
  std::ofstream(kFilter) << before;
}

}  // namespace
}  // namespace tzmark
