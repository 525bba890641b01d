// What is read ahead, for how long it is kept, and that it is never the wrong bytes.
#include "remote/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tzmark {
namespace {

std::byte byte_at(std::uint64_t offset) { return static_cast<std::byte>(offset * 31 + offset / 251); }

std::vector<std::byte> bytes_at(std::uint64_t offset, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = byte_at(offset + i);
  return bytes;
}

TEST(ReadAhead, KeepsTheBeginning) {
  ReadAhead ahead(bytes_at(0, 100));
  std::vector<std::byte> out(60);
  EXPECT_EQ(ahead.copy(50, out), 50U);
  EXPECT_TRUE(std::ranges::equal(std::span(out).first(50), bytes_at(50, 50)));
  EXPECT_EQ(ahead.copy(100, out), 0U);
  EXPECT_FALSE(ahead.copy_all(50, out));
  EXPECT_TRUE(ahead.copy_all(40, out));
}

TEST(ReadAhead, DoublesWhereReadsFollowEachOther) {
  ReadAhead ahead(bytes_at(0, 100));
  EXPECT_EQ(ahead.wanted_bytes(1'000'000, 10), ReadAhead::kLeastBytes);
  std::uint64_t end = 1'000'000 + ReadAhead::kLeastBytes;
  for (std::size_t bytes = 2 * ReadAhead::kLeastBytes; bytes <= ReadAhead::kMostBytes; bytes *= 2) {
    EXPECT_EQ(ahead.wanted_bytes(end, 10), bytes);
    end += bytes;
  }
  EXPECT_EQ(ahead.wanted_bytes(end, 10), ReadAhead::kMostBytes);
  EXPECT_EQ(ahead.wanted_bytes(end + ReadAhead::kMostBytes, ReadAhead::kMostBytes + 1), ReadAhead::kMostBytes + 1);
  // Elsewhere it begins anew, and so do reads that follow none.
  EXPECT_EQ(ahead.wanted_bytes(50'000'000, 10), ReadAhead::kLeastBytes);
  EXPECT_EQ(ahead.wanted_bytes(60'000'000, 2 << 20), std::size_t{2} << 20);
  EXPECT_EQ(ahead.wanted_bytes((60'000'000) + (2 << 20), 2 << 20), std::size_t{4} << 20);
}

TEST(ReadAhead, IsBounded) {
  ReadAhead ahead({});
  constexpr std::size_t kBytes = 1 << 20;
  for (std::uint64_t i = 0; i < 100; ++i) ahead.add(i * kBytes, std::vector<std::byte>(kBytes));
  std::vector<std::byte> out(1);
  EXPECT_EQ(ahead.copy(0, out), 0U);
  EXPECT_EQ(ahead.copy(99 * kBytes, out), 1U);
  EXPECT_EQ(ahead.copy((100 - ReadAhead::kKeptBytesMax / kBytes) * kBytes, out), 1U);
  EXPECT_EQ(ahead.copy((99 - ReadAhead::kKeptBytesMax / kBytes) * kBytes, out), 0U);
}

TEST(ReadAhead, ForgetsLargeWindowsThatWereRead) {
  ReadAhead ahead({});
  ahead.add(0, bytes_at(0, 3 << 20));
  ahead.add(10 << 20, bytes_at(10 << 20, 1000));
  std::vector<std::byte> out(2 << 20);
  EXPECT_EQ(ahead.copy(0, out), out.size());
  EXPECT_EQ(ahead.copy(2 << 20, out), std::size_t{1} << 20);
  EXPECT_EQ(ahead.copy(0, out), 0U);
  EXPECT_EQ(ahead.copy(10 << 20, out), 1000U);
  EXPECT_EQ(ahead.copy(10 << 20, out), 1000U);
}

TEST(ReadAhead, GivesTheRightBytes) {
  std::minstd_rand random(1);
  ReadAhead ahead(bytes_at(0, 5000));
  const auto below = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>(0, most - 1)(random); };
  std::size_t copied = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t offset = below(20'000);
    std::vector<std::byte> out(below(3000) + 1);
    if (i % 5 == 0) ahead.add(offset, bytes_at(offset, out.size()));
    const std::size_t count = i % 2 == 0 ? ahead.copy(offset, out) : ahead.copy_all(offset, out) ? out.size() : 0;
    ASSERT_TRUE(std::ranges::equal(std::span(out).first(count), bytes_at(offset, count))) << i;
    copied += count;
  }
  EXPECT_GT(copied, 100'000U);
}

}  // namespace
}  // namespace tzmark
