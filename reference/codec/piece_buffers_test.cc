// Buffers that pieces and parts of them share: no two overlap, and each has room for what it is for.
#include "codec/piece_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tzmark {
namespace {

constexpr std::size_t kPageBytes = 4096, kMibBytes = 1 << 20;

// Of bytes that begin in the last byte of a page.
std::size_t pages_of(std::size_t bytes) { return (kPageBytes - 1 + bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.data() < b.data() + b.size() && b.data() < a.data() + a.size();
}

TEST(BufferSizes, HaveRoomForAPieceAndForItsParts) {
  for (const std::size_t piece :
       {kPageBytes, kPageBytes + 1, kMibBytes, 2 * kMibBytes, 8 * kMibBytes - 8192, 64 * kMibBytes}) {
    for (const std::size_t divisor : {1, 2, 3, 4, 16, 100}) {
      const std::size_t part = std::max(kPageBytes, piece / divisor);
      const BufferSizes sizes(piece, part);
      EXPECT_GE(sizes.buffer_bytes, pages_of(piece)) << piece << " " << part;
      EXPECT_GE(sizes.part_bytes, pages_of(part)) << piece << " " << part;
      EXPECT_GE(sizes.buffer_bytes, sizes.parts * sizes.part_bytes) << piece << " " << part;
      EXPECT_LE(sizes.buffer_bytes, buffer_bytes_max(piece)) << piece << " " << part;
      EXPECT_GE(sizes.parts, 1U);
    }
  }
  EXPECT_EQ(BufferSizes(2 * kMibBytes, 2 * kMibBytes).parts, 1U);
  // No buffer is wasted on less than it holds.
  EXPECT_EQ(BufferSizes(2 * kMibBytes, kMibBytes / 2).parts, 4U);
  EXPECT_GE(BufferSizes(2 * kMibBytes, kMibBytes / 8).parts, 15U);
}

// Over numbers of parts.
class PieceBuffersTest : public ::testing::TestWithParam<unsigned> {
 protected:
  static constexpr std::size_t kPieceBytes = 1 << 20, kCount = 5;

  PieceBuffersTest() { EXPECT_EQ(sizes_.parts, GetParam()); }

  const std::size_t part_bytes_ = GetParam() == 1 ? kPieceBytes : kPieceBytes / GetParam() - 2 * kPageBytes;
  const BufferSizes sizes_{kPieceBytes, part_bytes_};
  PieceBuffers buffers_{sizes_, kCount, HostMemory::Pages::kSmall, std::nullopt};
};
INSTANTIATE_TEST_SUITE_P(Parts, PieceBuffersTest, ::testing::Values(1, 2, 7, 64));

TEST_P(PieceBuffersTest, NoTwoPiecesShareMemory) {
  struct Live {
    PieceBuffers::Share share;
    std::span<std::byte> memory;
  };
  std::mt19937 random(1);
  std::vector<Live> live;
  std::size_t most = 0;
  for (int step = 0; step < 8'000; ++step) {
    // Phases of growth and of decline, so that all buffers are taken, and all free, now and then.
    const bool grows = step / 200 % 2 == 0;
    if (live.empty() || (random() % 4 != 0) == grows) {
      if (!buffers_.has_room()) continue;
      const bool is_part = random() % 3 != 0;
      const PieceBuffers::Share share = buffers_.take(is_part);
      const std::span<std::byte> memory = buffers_.memory_of(share);
      ASSERT_GE(memory.size(), pages_of(is_part ? part_bytes_ : kPieceBytes));
      for (const Live& other : live) ASSERT_FALSE(overlap(memory, other.memory)) << step;
      live.push_back({share, memory});
      most = std::max(most, live.size());
    } else {
      std::swap(live[random() % live.size()], live.back());
      buffers_.give_back(live.back().share);
      live.pop_back();
    }
  }
  EXPECT_GE(most, sizes_.parts > 1 ? kCount + 1 : kCount);
  for (const Live& one : live) buffers_.give_back(one.share);
  // Every buffer is whole again.
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(buffers_.has_room());
    static_cast<void>(buffers_.take(false));
  }
  EXPECT_FALSE(buffers_.has_room());
}

TEST_P(PieceBuffersTest, APartLeavesItsBufferToOthers) {
  for (std::size_t i = 0; i < (kCount - 1) * sizes_.parts; ++i) {
    ASSERT_TRUE(buffers_.has_room()) << i;
    static_cast<void>(buffers_.take(true));
  }
  EXPECT_TRUE(buffers_.has_room()) << "the next piece may need a whole one";
}

TEST_P(PieceBuffersTest, WhatWasGivenBackLastIsUsedFirst) {
  const PieceBuffers::Share first = buffers_.take(false), second = buffers_.take(false);
  buffers_.give_back(second);
  buffers_.give_back(first);
  EXPECT_EQ(buffers_.take(false).buffer, first.buffer);
  EXPECT_EQ(buffers_.take(false).buffer, second.buffer);
}

TEST_P(PieceBuffersTest, NoShareHasNoMemory) {
  EXPECT_TRUE(buffers_.memory_of({}).empty());
  buffers_.give_back({});
  EXPECT_TRUE(buffers_.has_room());
}

}  // namespace
}  // namespace tzmark
