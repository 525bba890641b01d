// Pinned memory that is kept for the next load, over the stand-in of libcuda.
#include "io/pinned_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "testing/gpu/gpu_test.h"

namespace tzmark {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;

class DeviceFaultPool : public ::testing::Test {
 protected:
  DeviceFaultPool() {
    test::free_kept();
    EXPECT_EQ(test::fake_pinned_bytes(), 0U);
  }
  ~DeviceFaultPool() override {
    test::free_kept();
    EXPECT_EQ(test::fake_pinned_bytes(), 0U);
  }

  PinnedPool& pool_ = PinnedPool::instance();
};

TEST_F(DeviceFaultPool, KeepsABlockPinnedForTheNextOwner) {
  const std::byte* first = nullptr;
  {
    const PinnedMemory block = pool_.take(kBlockBytes, 0, false);
    first = block.bytes().data();
    EXPECT_EQ(block.bytes().size(), kBlockBytes);
    EXPECT_EQ(pool_.idle_bytes(), 0U);
    EXPECT_EQ(test::fake_pinned_bytes(), kBlockBytes);
  }
  EXPECT_EQ(pool_.idle_bytes(), kBlockBytes);
  const PinnedMemory again = pool_.take(kBlockBytes - 1, 0, false);
  EXPECT_EQ(again.bytes().data(), first);
  const PinnedMemory other = pool_.take(kBlockBytes, 0, false);
  EXPECT_NE(other.bytes().data(), first);
  EXPECT_EQ(test::fake_pinned_bytes(), 2 * kBlockBytes);
}

TEST_F(DeviceFaultPool, DoesNotSpendALargeBlockOnASmallRequest) {
  { const PinnedMemory large = pool_.take(4 * kBlockBytes, 0, false); }
  const PinnedMemory small = pool_.take(kBlockBytes, 0, false);
  EXPECT_EQ(pool_.idle_bytes(), 4 * kBlockBytes);
  const PinnedMemory larger = pool_.take(8 * kBlockBytes, 0, false);
  EXPECT_EQ(pool_.idle_bytes(), 4 * kBlockBytes);
}

TEST_F(DeviceFaultPool, KeepsNoMoreThanItsLimit) {
  constexpr std::size_t kQuarter = PinnedPool::idle_bytes_max() / 4;
  {
    std::vector<PinnedMemory> blocks;
    for (int i = 0; i < 6; ++i) blocks.push_back(pool_.take(kQuarter, 0, false));
    EXPECT_EQ(test::fake_pinned_bytes(), 6 * kQuarter);
  }
  EXPECT_EQ(pool_.idle_bytes(), 4 * kQuarter);
  EXPECT_EQ(test::fake_pinned_bytes(), 4 * kQuarter);
  { const PinnedMemory beyond = pool_.take(PinnedPool::idle_bytes_max() + 1, 0, false); }
  EXPECT_EQ(pool_.idle_bytes(), 4 * kQuarter);
}

TEST_F(DeviceFaultPool, FillsItselfAhead) {
  pool_.fill(5 * kBlockBytes + 1, kBlockBytes, 0);
  EXPECT_EQ(pool_.idle_bytes(), 5 * kBlockBytes);
  pool_.fill(3 * kBlockBytes, kBlockBytes, 0);
  EXPECT_EQ(pool_.idle_bytes(), 5 * kBlockBytes);
  pool_.fill(~std::size_t{0}, std::size_t{64} << 20, 0);
  EXPECT_LE(pool_.idle_bytes(), PinnedPool::idle_bytes_max());
}

TEST_F(DeviceFaultPool, WipesWhatHeldSecrets) {
  const auto left_by = [&](bool holds_secrets) {
    {
      const PinnedMemory block = pool_.take(kBlockBytes, 0, holds_secrets);
      std::ranges::fill(block.bytes(), std::byte{0x5A});
    }
    const PinnedMemory next = pool_.take(kBlockBytes, 0, false);
    return std::ranges::count(next.bytes(), std::byte{0x5A});
  };
  EXPECT_EQ(left_by(true), 0);
  // So that the other count says something.
  EXPECT_EQ(left_by(false), static_cast<std::ptrdiff_t>(kBlockBytes));
}

TEST_F(DeviceFaultPool, ServesSeveralThreads) {
  const auto work = [&] {
    for (int i = 0; i < 200; ++i) {
      const PinnedMemory block = pool_.take(kBlockBytes / 16, 0, i % 3 == 0);
      block.bytes().front() = block.bytes().back() = std::byte{1};
      if (i % 50 == 0) pool_.clear();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back(work);
  }
  EXPECT_EQ(test::fake_pinned_bytes(), pool_.idle_bytes());
}

TEST_F(DeviceFaultPool, MovesItsBlocks) {
  PinnedMemory one = pool_.take(kBlockBytes, 0, false);
  const std::byte* const data = one.bytes().data();
  PinnedMemory other(std::move(one));
  EXPECT_EQ(other.bytes().data(), data);
  other = pool_.take(kBlockBytes, 0, true);
  EXPECT_NE(other.bytes().data(), data);
}

}  // namespace
}  // namespace tzmark
