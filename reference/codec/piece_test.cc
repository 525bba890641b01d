// The sizes of pieces, and how their transfers are split.
#include "codec/piece.h"

#include <gtest/gtest.h>

#include <vector>

namespace tzmark {
namespace {

TEST(SplitTransfer, CoversTheWholeTransferInParts) {
  std::vector<std::byte> memory(100'000);
  FileTransfers transfers;
  transfers[0].transfer.offset = 30'000;
  transfers[0].transfer.memory = {memory.data(), 70'000};
  ASSERT_EQ(split_transfer(transfers, 40'000), 3U);
  constexpr std::array<std::uint64_t, 4> kBounds = {30'000, 40'000, 80'000, 100'000};
  for (std::size_t i = 0; i < 3; ++i) {
    const Transfer& part = transfers[i].transfer;
    EXPECT_EQ(part.offset, kBounds[i]);
    EXPECT_EQ(part.memory.data, memory.data() + (kBounds[i] - 30'000));
    EXPECT_EQ(part.memory.size, kBounds[i + 1] - kBounds[i]);
  }
}

TEST(SplitTransfer, LastPartTakesALittleMore) {
  std::vector<std::byte> memory(84'095);
  FileTransfers transfers;
  transfers[0].transfer.memory = {memory.data(), memory.size()};
  ASSERT_EQ(split_transfer(transfers, 40'000), 2U);
  EXPECT_EQ(transfers[1].transfer.memory.size, 44'095U);
  // Not at a border that it happens to contain.
  transfers[0].transfer.offset = 30'000;
  transfers[0].transfer.memory = {memory.data(), 44'096};
  EXPECT_EQ(split_transfer(transfers, 40'000), 1U);
  EXPECT_EQ(transfers[0].transfer.memory.size, 44'096U);
}

TEST(SplitTransfer, OnlyTheLastPartMayOverwriteWhatFollows) {
  std::vector<std::byte> memory(100'000);
  FileTransfers transfers;
  transfers[0].transfer.memory = {memory.data(), 70'000};
  transfers[0].transfer.spare_bytes = 30'000;
  ASSERT_EQ(split_transfer(transfers, 40'000), 2U);
  EXPECT_EQ(transfers[0].transfer.spare_bytes, 0U);
  EXPECT_EQ(transfers[1].transfer.spare_bytes, 30'000U);
}

TEST(SplitTransfer, LeavesTheRestToTheLastPart) {
  std::vector<std::byte> memory(100'000);
  FileTransfers transfers;
  transfers[0].transfer.memory = {memory.data(), memory.size()};
  ASSERT_EQ(split_transfer(transfers, 1'000), kTransfersOfPieceMax);
  EXPECT_EQ(transfers.back().transfer.offset, 39'000U);
  EXPECT_EQ(transfers.back().transfer.memory.size, 61'000U);
}

TEST(PipelineOptions, RefuseSizesThatCannotBe) {
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{4095}, (std::size_t{1} << 40) + 1, ~std::size_t{0} - 8190,
                                  std::size_t{1} << 63, ~std::size_t{0}}) {
    EXPECT_THROW(PipelineOptions{.piece_bytes = bytes}.check(), Error) << bytes;
    EXPECT_THROW(PipelineOptions{.part_bytes = bytes}.check(), Error) << bytes;
  }
  EXPECT_THROW(PipelineOptions{.piece_bytes = 0}.check(), Error);
  PipelineOptions{.piece_bytes = 4096, .part_bytes = std::size_t{1} << 40}.check();
}

}  // namespace
}  // namespace tzmark
