// Which tensors take turns, and how they are divided.
#include "codec/lanes.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

namespace tzmark {
namespace {

constexpr std::size_t kLaneSmallBytes = 100;  // and less: in runs
const PartSizes kLaneSizes{.part_bytes = 8'000, .lane_part_bytes = 1'000};

struct FakeLarge {
  std::uint64_t data_length() const { return length; }
  std::size_t part_bytes(std::uint64_t, std::size_t most) const { return most; }
  std::size_t header_bytes() const { return header; }

  Chain chain;
  std::uint64_t length;
  std::size_t header;
};

class LanesTest : public ::testing::Test {
 protected:
  using Piece = TensorPiece<FakeLarge>;

  // Deals out all pieces of tensors of these lengths.
  std::vector<Piece> deal(const std::vector<std::uint64_t>& lengths, unsigned threads, bool hashes,
                          PartSizes sizes = kLaneSizes, std::size_t header_bytes = 0,
                          const std::vector<std::size_t>& critical = {}) {
    Lanes<FakeLarge> lanes(0, lengths.size(), threads, hashes, sizes, critical);
    std::vector<Piece> pieces;
    for (Piece piece;; piece = {}) {
      const auto add_to_run = [&](std::size_t i) { return lengths[i] <= kLaneSmallBytes && piece.count < 3; };
      const auto open = [&](std::size_t i) {
        return std::make_shared<FakeLarge>(FakeLarge{{}, lengths[i], header_bytes});
      };
      if (!lanes.next(piece, nullptr, add_to_run, open)) return pieces;
      pieces.push_back(piece);
    }
  }

  static std::vector<std::size_t> critical(const std::vector<std::uint64_t>& lengths, std::size_t threads) {
    return critical_tensors(0, lengths.size(), threads, 8'001, [&](std::size_t i) { return lengths[i]; });
  }

  // Returns how many different tensors the first pieces are of.
  static std::size_t in_turn(const std::vector<Piece>& pieces, std::size_t first) {
    std::set<std::size_t> tensors;
    for (std::size_t i = 0; i < first; ++i) tensors.insert(pieces[i].first);
    return tensors.size();
  }

  const std::size_t per_thread_ = sha256_lanes();
};

// No part begins farther from one that is still to come than the window has bytes, and several tensors take turns in
// it.
TEST_F(LanesTest, TensorsTakeTurnsWithinTheWindow) {
  const std::vector<std::uint64_t> lengths(50, 10'000);
  PartSizes sizes = kLaneSizes;
  sizes.streams = 4;
  sizes.window_bytes = 35'000;
  sizes.place = [](std::size_t tensor) { return std::uint64_t{tensor} * 10'100; };
  const auto pieces = deal(lengths, 2, true, sizes);
  std::uint64_t behind = ~std::uint64_t{0};
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece) {
    const std::uint64_t place = sizes.place(piece->first) + piece->offset;
    behind = std::min(behind, place);
    EXPECT_LE(place - behind, sizes.window_bytes + kLaneSizes.part_bytes);
  }
  // While the first one has only its first part behind it.
  EXPECT_EQ(in_turn(pieces, 8), 5U);
}

TEST_F(LanesTest, EveryByteIsDealtOnceAndInOrder) {
  std::vector<std::uint64_t> lengths;
  for (std::uint64_t i = 0; i < 200; ++i) lengths.push_back(i % 7 == 0 ? 50 : 50 * i);
  for (const bool hashes : {false, true}) {
    for (const unsigned threads : {1U, 3U}) {
      std::vector<std::uint64_t> dealt(lengths.size()), parts(lengths.size());
      for (const Piece& piece : deal(lengths, threads, hashes)) {
        for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) dealt[i] += lengths[i];
        if (!piece.large) continue;
        EXPECT_EQ(piece.offset, dealt[piece.first]);
        EXPECT_EQ(piece.in_chain, parts[piece.first]++);
        EXPECT_EQ(piece.is_part, !hashes || per_thread_ == 1 || piece.length <= kLaneSizes.lane_part_bytes);
        dealt[piece.first] += piece.length;
      }
      EXPECT_EQ(dealt, lengths);
    }
  }
}

TEST_F(LanesTest, AsManyBeginAtOnceAsAreHashedSideBySide) {
  const std::vector<std::uint64_t> lengths(100, 20'000);
  const auto pieces = deal(lengths, 2, true);
  const std::size_t lanes = std::min<std::size_t>(100, 2 * per_thread_);
  EXPECT_EQ(in_turn(pieces, lanes), lanes);
  EXPECT_EQ(in_turn(pieces, 3 * lanes), lanes);
}

TEST_F(LanesTest, WithoutHashesOneFollowsTheOther) {
  const auto pieces = deal({20'000, 20'000}, 2, false);
  EXPECT_EQ(in_turn(pieces, 3), 1u);
  EXPECT_EQ(pieces[0].length, kLaneSizes.part_bytes);
}

TEST_F(LanesTest, NoMoreThanTheThreadsNeedAreHashedInLargeParts) {
  for (const Piece& piece : deal({20'000, 20'000}, 2, true))
    EXPECT_TRUE(piece.length == 8'000 || piece.length == 4'000);
}

TEST_F(LanesTest, RunsOfSmallTensorsDoNotHoldUpTheLanes) {
  std::vector<std::uint64_t> lengths(31, 50);
  lengths[0] = 20'000;
  const auto pieces = deal(lengths, 2, true);
  // A part of the large tensor lies between two runs.
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(pieces[i].large != nullptr, i % 2 == 0) << i;
}

TEST_F(LanesTest, FewFilesLimitTheLanes) {
  PartSizes sizes = kLaneSizes;
  sizes.lanes_max = 5;
  const std::size_t lanes = std::min<std::size_t>(5, 2 * per_thread_);
  EXPECT_EQ(in_turn(deal(std::vector<std::uint64_t>(100, 20'000), 2, true, sizes), 2 * lanes), lanes);
  sizes.lanes_max = 0;
  EXPECT_EQ(in_turn(deal(std::vector<std::uint64_t>(100, 20'000), 2, true, sizes), 4), 2u) << "one for each thread";
}

TEST_F(LanesTest, LargeHeadersLimitTheLanes) {
  const std::vector<std::uint64_t> lengths(100, 20'000);
  // The fourth one reaches 32 MiB.
  const auto pieces = deal(lengths, 2, true, kLaneSizes, 8 << 20);
  const std::size_t lanes = std::min<std::size_t>(4, 2 * per_thread_);
  EXPECT_EQ(in_turn(pieces, 2 * lanes), lanes);
}

TEST_F(LanesTest, TensorsWhoseHashWouldEndLastAreCritical) {
  using Numbers = std::vector<std::size_t>;
  std::vector<std::uint64_t> lengths(101, 10'000);
  lengths[100] = 400'000;
  EXPECT_EQ(critical(lengths, 2), Numbers{100});
  lengths[7] = 500'000;
  EXPECT_EQ(critical(lengths, 8), (Numbers{7, 100})) << "the largest first";
  EXPECT_EQ(critical(lengths, 2), Numbers{7}) << "one thread is left for the others";
  EXPECT_EQ(critical(lengths, 1), Numbers{});
  EXPECT_EQ(critical(std::vector<std::uint64_t>(8, 10'000), 2), Numbers{}) << "none is larger than the others";
  EXPECT_EQ(critical({7'000, 10}, 2), Numbers{}) << "it fits into a run";
  EXPECT_EQ(critical({500'000}, 2), Numbers{}) << "there is no other";
  EXPECT_EQ(critical(std::vector<std::uint64_t>(100'000, 50'000'000), 1'000'000), Numbers{}) << "too many to search";
}

TEST_F(LanesTest, CriticalTensorsComeFirstAndKeepAFewPartsInFlight) {
  std::vector<std::uint64_t> lengths(40, 9'000);
  lengths[39] = 100'000;
  const auto pieces = deal(lengths, 2, true, kLaneSizes, 0, {39});
  std::vector<std::uint64_t> dealt(lengths.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    // Nothing is hashed, so that no more follow until the others are dealt.
    EXPECT_EQ(piece.is_critical, piece.first == 39);
    EXPECT_EQ(piece.is_critical, i < 4 || i >= pieces.size() - 9) << i;
    EXPECT_TRUE(!piece.large || piece.offset == dealt[piece.first]);
    dealt[piece.first] += piece.length;
  }
  EXPECT_EQ(dealt, lengths) << "each is dealt once";
}

TEST_F(LanesTest, AnErrorOfACriticalTensorIsAtItsPosition) {
  const std::vector<std::uint64_t> lengths = {10, 20'000, 10, 900'000, 20'000};
  Lanes<FakeLarge> lanes(0, lengths.size(), 2, true, kLaneSizes, {3});
  std::vector<std::uint64_t> dealt(lengths.size());
  std::optional<Position> error;
  for (Piece piece;; piece = {}) {
    const auto open = [&](std::size_t i) {
      if (i == 3) throw std::runtime_error("bad");
      return std::make_shared<FakeLarge>(FakeLarge{{}, lengths[i], 0});
    };
    const auto add_to_run = [&](std::size_t i) { return lengths[i] <= kLaneSmallBytes; };
    if (!lanes.next(piece, error ? &*error : nullptr, add_to_run, open)) break;
    if (piece.failure) {
      EXPECT_FALSE(error);
      error = piece.position;
    } else if (piece.large) {
      dealt[piece.first] += piece.length;
    } else {
      for (std::size_t i = piece.first; i < piece.first + piece.count; ++i) dealt[i] += lengths[i];
    }
  }
  ASSERT_TRUE(error);
  EXPECT_EQ(error->tensor, 3u);
  EXPECT_EQ(dealt, (std::vector<std::uint64_t>{10, 20'000, 10, 0, 0})) << "tensors before it are dealt";
}

}  // namespace
}  // namespace tzmark
