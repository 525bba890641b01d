// Every byte has its place, whichever role reads it.
#include "cluster/pattern.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;

// Offset and length of the bytes in the file, whatever the blocks.
std::map<std::uint64_t, std::uint64_t> covered(const RankParts& parts) {
  std::map<std::uint64_t, std::uint64_t> ranges;
  std::vector<FilePart> sorted = parts.parts;
  std::ranges::sort(sorted, {}, &FilePart::offset);
  std::uint64_t end = ~std::uint64_t{0};
  std::uint64_t begin = 0;
  for (const FilePart& part : sorted) {
    if (part.offset != end) begin = part.offset;
    ranges[begin] += part.bytes;
    end = part.offset + part.bytes;
  }
  return ranges;
}

TEST(Pattern, NamesLeadBack) {
  for (const Pattern pattern : all_patterns()) {
    EXPECT_EQ(pattern_from_name(name_of(pattern)), pattern);
    EXPECT_FALSE(summary_of(pattern).empty());
  }
  EXPECT_EQ(pattern_from_name("other"), std::nullopt);
}

TEST(Pattern, WholeFilesBeginWhereTheRoleSays) {
  for (const std::uint64_t bytes : {std::uint64_t{1}, kBlockBytes, 10 * kBlockBytes + 7}) {
    for (unsigned role = 0; role < 3; ++role) {
      const RankParts parts = whole_file(bytes, kBlockBytes, role, 3);
      EXPECT_EQ(parts.bytes, bytes);
      EXPECT_EQ(covered(parts), (std::map<std::uint64_t, std::uint64_t>{{0, bytes}}));
      for (const FilePart& part : parts.parts) EXPECT_EQ(part.at, part.offset);
    }
  }
  EXPECT_EQ(whole_file(9 * kBlockBytes, kBlockBytes, 1, 3).parts.front().offset, 3 * kBlockBytes);
}

TEST(Pattern, SlicesDivideTheRows) {
  // 10 rows of 1000 bytes, a bias, a tensor with too few rows, and an empty one.
  const std::array<StoredTensor, 4> tensors = {
      StoredTensor{100, 10'000, 10}, {20'000, 500, 0}, {30'000, 6'000, 2}, {40'000, 0, 0}};
  std::map<std::uint64_t, std::uint64_t> rows;
  for (unsigned role = 0; role < 3; ++role) {
    const RankParts parts = slices(tensors, kBlockBytes, role, 3);
    std::map<std::uint64_t, std::uint64_t> ranges = covered(parts);
    EXPECT_EQ(ranges[20'000], 500U);
    EXPECT_EQ(ranges[30'000], 6'000U);
    ranges.erase(20'000);
    ranges.erase(30'000);
    ASSERT_EQ(ranges.size(), 1U);
    rows.insert(ranges.begin(), ranges.end());
    std::uint64_t at = 0;
    for (const FilePart& part : parts.parts) {
      EXPECT_EQ(part.at, at);
      at += part.bytes;
    }
    EXPECT_EQ(parts.bytes, at);
  }
  EXPECT_EQ(rows, (std::map<std::uint64_t, std::uint64_t>{{100, 3'000}, {3'100, 3'000}, {6'100, 4'000}}));
}

TEST(Pattern, MoreRolesThanBlocksReadTheWholeFile) {
  for (unsigned role = 0; role < 16; ++role) EXPECT_EQ(whole_file(5'000, kBlockBytes, role, 16).bytes, 5'000U);
}

}  // namespace
}  // namespace tzmark::bench
