// Buffers of pieces in pinned memory, over the stand-in of libcuda.
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "codec/piece_buffers.h"
#include "testing/gpu/gpu_test.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

class DeviceFaultBuffers : public ::testing::Test {
 protected:
  static constexpr std::size_t kPieceBytes = 256 << 10, kPartBytes = 32 << 10;

  DeviceFaultBuffers() { test::free_kept(); }
  ~DeviceFaultBuffers() override {
    test::free_kept();
    EXPECT_EQ(test::fake_pinned_bytes(), 0U);
  }

  const BufferSizes sizes_{kPieceBytes, kPartBytes};
};

TEST_F(DeviceFaultBuffers, ArePinnedWhenTheyAreFirstUsed) {
  PieceBuffers buffers(sizes_, 4, HostMemory::Pages::kSmall, PieceBuffers::Pinning{});
  const PieceBuffers::Share share = buffers.take(false);
  EXPECT_EQ(test::fake_pinned_bytes(), 0U);
  const std::span<std::byte> memory = buffers.memory_of(share);
  EXPECT_EQ(test::fake_pinned_bytes(), sizes_.buffer_bytes);
  buffers.give_back(share);
  EXPECT_EQ(buffers.memory_of(buffers.take(false)).data(), memory.data());
  EXPECT_EQ(test::fake_pinned_bytes(), sizes_.buffer_bytes);
}

TEST_F(DeviceFaultBuffers, ArePinnedOnceByThreadsThatUseTheirParts) {
  for (int round = 0; round < 50; ++round) {
    test::free_kept();
    PieceBuffers buffers(sizes_, 2, HostMemory::Pages::kSmall, PieceBuffers::Pinning{.holds_secrets = true});
    std::vector<PieceBuffers::Share> shares;
    for (unsigned i = 0; i < sizes_.parts; ++i) shares.push_back(buffers.take(true));
    std::vector<std::span<std::byte>> memory(shares.size());
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < shares.size(); ++i) {
        threads.emplace_back([&, i] { memory[i] = buffers.memory_of(shares[i]); });
      }
    }
    EXPECT_EQ(test::fake_pinned_bytes(), sizes_.buffer_bytes);
    for (std::size_t i = 0; i < memory.size(); ++i)
      EXPECT_EQ(memory[i].data(), memory[0].data() + i * sizes_.part_bytes);
  }
}

TEST_F(DeviceFaultBuffers, AreTriedAgainWherePinningFailed) {
  test::FakeCudaOrders& orders = test::fake_orders();
  int failed = 0;
  for (std::int64_t call = 0, made = 1; call < made; ++call) {
    test::free_kept();
    PieceBuffers buffers(sizes_, 1, HostMemory::Pages::kSmall, PieceBuffers::Pinning{});
    const PieceBuffers::Share share = buffers.take(true);
    const std::int64_t before = orders.calls;
    orders.fail_call = before + call;
    try {
      static_cast<void>(buffers.memory_of(share));
    } catch (const Error&) {
      ++failed;
    }
    orders.fail_call = -1;
    EXPECT_EQ(buffers.memory_of(share).size(), sizes_.part_bytes);
    made = orders.calls - before;
  }
  EXPECT_GT(failed, 0);
}

}  // namespace
}  // namespace tzmark
