// Kinds of pages, from the text of smaps and of memory of this process.
#include "harness/pages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "tzmark/memory.h"

namespace tzmark::bench {
namespace {

constexpr std::string_view kSmaps =
    "55e000000000-55e000001000 r--p 00000000 fe:00 1234                       /usr/bin/fio\n"
    "Size:                  4 kB\nAnonymous:             0 kB\nAnonHugePages:         0 kB\n"
    "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n"
    "Size:               4096 kB\nRss:                4096 kB\nAnonymous:          4096 kB\n"
    "AnonHugePages:      4096 kB\nVmFlags: rd wr mr mw me ac hg\n"
    "7f0000400000-7f0000800000 rw-p 00000000 00:00 0 \n"
    "Size:               4096 kB\nAnonymous:          1024 kB\nAnonHugePages:         0 kB\n";

TEST(Pages, AreThoseOfTheMappingsOfTheRange) {
  EXPECT_EQ(huge_share(kSmaps, 0x7f0000000000, 0x1000), 1);
  EXPECT_EQ(huge_share(kSmaps, 0x7f0000400000, 0x1000), 0);
  EXPECT_EQ(huge_share(kSmaps, 0x7f00003ff000, 0x2000), 0.8);
  EXPECT_EQ(huge_share(kSmaps, 0x7f0000800000, 0x1000), std::nullopt);
  EXPECT_EQ(huge_share(kSmaps, 0x55e000000000, 0x1000), std::nullopt);
  EXPECT_EQ(huge_share("", 0, 1), std::nullopt);
}

TEST(Pages, OfAnotherProgramAreThoseOfItsLargeMappings) {
  EXPECT_EQ(count_large(kSmaps, 1).huge_share(), 0.8);
  EXPECT_EQ(count_large(kSmaps, 2 << 20).huge_share(), 1);
  EXPECT_EQ(count_large(kSmaps, 2 << 20).anonymous_bytes, 4u << 20);
  EXPECT_EQ(count_large(kSmaps, 8 << 20).huge_share(), std::nullopt);
}

TEST(Pages, HaveNames) {
  EXPECT_EQ(kind_of(1), "huge");
  EXPECT_EQ(kind_of(0.9), "huge");
  EXPECT_EQ(kind_of(0.5), "mixed");
  EXPECT_EQ(kind_of(0.1), "small");
  EXPECT_EQ(name_of(Pages::kSmall), "small");
}

TEST(Pages, OfThisProcessAreAsRequested) {
  constexpr std::size_t kMemoryBytes = 8 << 20;
  const HostMemory small(kMemoryBytes, HostMemory::Pages::kSmall);
  const HostMemory huge(kMemoryBytes, HostMemory::Pages::kHuge);
  EXPECT_EQ(huge_share(small.bytes()), std::nullopt) << "untouched";
  std::memset(small.bytes().data(), 1, kMemoryBytes);
  std::memset(huge.bytes().data(), 1, kMemoryBytes);
  EXPECT_EQ(huge_share(small.bytes()), 0);
  std::ifstream setting("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string words;
  std::getline(setting, words);
  if (words.empty() || words.find("[never]") != std::string::npos) GTEST_SKIP() << "this system has no huge pages";
  const auto share = huge_share(huge.bytes());
  ASSERT_TRUE(share);
  EXPECT_GT(*share, 0);
}

}  // namespace
}  // namespace tzmark::bench
