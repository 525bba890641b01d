// What is read ahead, for how long it is kept, and that it is never the wrong bytes.
#include "remote/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <thread>

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

constexpr std::uint64_t kFileBytes = std::uint64_t{1} << 40;

TEST(ReadAhead, DoublesWhereReadsFollowEachOther) {
  ReadAhead ahead(bytes_at(0, 100));
  const auto claimed = [&](std::uint64_t offset, std::size_t bytes) {
    return ahead.claim(offset, bytes, kFileBytes)->bytes;
  };
  EXPECT_EQ(claimed(1'000'000, 10), ReadAhead::kLeastBytes);
  std::uint64_t end = 1'000'000 + ReadAhead::kLeastBytes;
  for (std::size_t bytes = 2 * ReadAhead::kLeastBytes; bytes <= ReadAhead::kMostBytes; bytes *= 2) {
    EXPECT_EQ(claimed(end, 10), bytes);
    end += bytes;
  }
  EXPECT_EQ(claimed(end, 10), ReadAhead::kMostBytes);
  EXPECT_EQ(claimed(end + ReadAhead::kMostBytes, ReadAhead::kMostBytes + 1), ReadAhead::kMostBytes + 1);
  // Elsewhere it begins anew, and so do reads that follow none.
  EXPECT_EQ(claimed(50'000'000, 10), ReadAhead::kLeastBytes);
  EXPECT_EQ(claimed(60'000'000, 2 << 20), std::size_t{2} << 20);
  EXPECT_EQ(claimed(60'000'000 + (2 << 20), 2 << 20), std::size_t{4} << 20);
  EXPECT_EQ(ahead.claim(kFileBytes - 5, 2, kFileBytes)->bytes, 5U);
}

TEST(ReadAhead, DoesNotReadWhatOthersRead) {
  ReadAhead ahead({});
  {
    const auto large = ahead.claim(1'040'000, 1'000'000, kFileBytes);  // to memory of its own
    EXPECT_EQ(large->bytes, 1'000'000U);
    EXPECT_EQ(ahead.claim(1'000'000, 10, kFileBytes)->bytes, 40'000U);
    EXPECT_EQ(ahead.claim(1'030'000, 20'000, kFileBytes)->bytes, 20'000U);
  }
  EXPECT_EQ(ahead.claim(1'000'001, 10, kFileBytes)->bytes, 29'999U);
  ahead.add(2'000'100, bytes_at(2'000'100, 10'000));
  EXPECT_EQ(ahead.claim(2'000'000, 200, kFileBytes)->bytes, 100U);
}

TEST(ReadAhead, DoesNotReadWhatWasRead) {
  ReadAhead ahead({});
  EXPECT_EQ(ahead.claim(5 << 20, 1 << 20, kFileBytes)->bytes, std::size_t{1} << 20);
  EXPECT_EQ(ahead.claim(3 << 20, 1 << 20, kFileBytes)->bytes, std::size_t{1} << 20);
  EXPECT_EQ(ahead.claim(4 << 20, 1 << 19, kFileBytes)->bytes, std::size_t{1} << 20);
  EXPECT_EQ(ahead.claim(5 << 20, 1 << 19, kFileBytes)->bytes, std::size_t{4} << 20);
}

TEST(ReadAhead, FollowsTensorsWhoseHeadersWereRead) {
  constexpr std::uint64_t kTensorBytes = 2 << 20;
  ReadAhead ahead({});
  for (std::uint64_t i = 0; i < 40; ++i) {
    const std::uint64_t header = i * kTensorBytes;
    ahead.add(header, bytes_at(header, ahead.claim(header, 100, kFileBytes)->bytes));
  }
  std::vector<std::byte> out(kTensorBytes);
  std::size_t claims = 0;
  for (std::uint64_t at = 0; at < 40 * kTensorBytes;) {
    const std::size_t wanted = kTensorBytes - at % kTensorBytes;
    if (const std::size_t copied = ahead.copy(at, std::span(out).first(wanted)); copied > 0) {
      at += copied;
      continue;
    }
    auto claim = ahead.claim(at, wanted, kFileBytes);
    ++claims;
    if (claim->bytes > wanted) claim->keep(std::vector<std::byte>(claim->bytes));
    at += std::min(claim->bytes, wanted);
  }
  EXPECT_LT(claims, 10U);
}

TEST(ReadAhead, WaitsForWhatAnotherThreadReadsAhead) {
  ReadAhead ahead({});
  for (const bool succeeds : {true, false}) {
    const std::uint64_t offset = succeeds ? 1'000'000 : 3'000'000;
    auto claim = std::make_optional(ahead.claim(offset, 10, kFileBytes));
    ASSERT_TRUE(claim->has_value());
    std::vector<std::byte> out(100);
    std::jthread other([&] {
      std::size_t copied = 0;
      bool is_claimed = false;
      while (copied == 0 && !is_claimed) {
        copied = ahead.copy(offset + 500, out);
        if (copied == 0) is_claimed = ahead.claim(offset + 500, out.size(), kFileBytes).has_value();
      }
      EXPECT_EQ(copied, succeeds ? out.size() : 0);
      EXPECT_EQ(is_claimed, !succeeds);
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (succeeds) (*claim)->keep(bytes_at(offset, (*claim)->bytes));
    claim.reset();
  }
}

TEST(ReadAhead, IsBounded) {
  ReadAhead ahead({});
  constexpr std::size_t kBytes = 1 << 20, kCount = 200;
  for (std::uint64_t i = 0; i < kCount; ++i) ahead.add(i * kBytes, std::vector<std::byte>(kBytes));
  std::vector<std::byte> out(1);
  EXPECT_EQ(ahead.copy(0, out), 0U);
  EXPECT_EQ(ahead.copy((kCount - 1) * kBytes, out), 1U);
  EXPECT_EQ(ahead.copy((kCount - ReadAhead::kKeptBytesMax / kBytes) * kBytes, out), 1U);
  EXPECT_EQ(ahead.copy((kCount - 1 - ReadAhead::kKeptBytesMax / kBytes) * kBytes, out), 0U);
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
