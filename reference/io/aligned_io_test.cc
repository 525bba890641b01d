// Tests of how transfers are cut into steps for direct I/O.
#include "io/aligned_io.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tzmark {
namespace {

using Route = AlignedStep::Route;

constexpr std::size_t kUnit = 4096;
constexpr std::size_t kBounce = 4 * kUnit;
constexpr Alignment kAlignment{kUnit, 512};

// Views of memory at any address, which is not touched.
ConstBuffer memory_at(std::uintptr_t address, std::size_t bytes) {
  return {reinterpret_cast<const std::byte*>(address), bytes};
}

void expect_step(const AlignedStep& step, Route route, std::uint64_t offset, std::size_t bytes, std::size_t skip,
                 std::size_t useful) {
  EXPECT_EQ(step.route, route);
  EXPECT_EQ(step.offset, offset);
  EXPECT_EQ(step.bytes, bytes);
  EXPECT_EQ(step.skip, skip);
  EXPECT_EQ(step.useful, useful);
}

TEST(ReadStep, AlignedGoesStraight) {
  expect_step(read_step(kAlignment, kUnit, memory_at(512, 3 * kUnit + 5), kBounce), Route::kStraight, kUnit, 3 * kUnit,
              0, 3 * kUnit);
}

TEST(ReadStep, TheEndIsReadWholeAndCopied) {
  expect_step(read_step(kAlignment, kUnit, memory_at(512, 5), kBounce), Route::kBounced, kUnit, kUnit, 0, 5);
}

// A buffer of whole pages takes the end of a file without a second call.
TEST(ReadStep, TheEndIsReadAtOnceWhereThereIsRoom) {
  expect_step(read_step_with_room(kAlignment, kUnit, memory_at(512, 3 * kUnit + 5), kUnit - 5, kBounce),
              Route::kStraight, kUnit, 4 * kUnit, 0, 3 * kUnit + 5);
  expect_step(read_step_with_room(kAlignment, kUnit, memory_at(512, 5), kUnit, kBounce), Route::kStraight, kUnit, kUnit,
              0, 5);
  expect_step(read_step_with_room(kAlignment, kUnit, memory_at(512, 3 * kUnit), kUnit, kBounce), Route::kStraight,
              kUnit, 3 * kUnit, 0, 3 * kUnit);
  // One byte of room too few.
  expect_step(read_step_with_room(kAlignment, kUnit, memory_at(512, 5), kUnit - 6, kBounce), Route::kBounced, kUnit,
              kUnit, 0, 5);
  // Neither at an unaligned offset, nor in unaligned memory.
  expect_step(read_step_with_room(kAlignment, 10, memory_at(512, 5), kUnit, kBounce), Route::kBounced, 0, kUnit, 10, 5);
  expect_step(read_step_with_room(kAlignment, kUnit, memory_at(1, 5), kUnit, kBounce), Route::kBounced, kUnit, kUnit, 0,
              5);
}

TEST(ReadStep, UnalignedMemoryIsReadInPieces) {
  expect_step(read_step(kAlignment, 0, memory_at(1, 100 * kUnit), kBounce), Route::kBounced, 0, kBounce, 0, kBounce);
  expect_step(read_step(kAlignment, 10, memory_at(0, 100 * kUnit), kBounce), Route::kBounced, 0, kBounce, 10,
              kBounce - 10);
}

TEST(ReadStep, OnlyTheHeadIsCopiedIfTheRestIsLargeAndFits) {
  expect_step(read_step(kAlignment, 10, memory_at(10, 100 * kUnit), kBounce), Route::kBounced, 0, kUnit, 10,
              kUnit - 10);
  // What is small is read at once.
  expect_step(read_step(kAlignment, 10, memory_at(10, 3 * kUnit), kBounce), Route::kBounced, 0, kBounce, 10, 3 * kUnit);
}

TEST(ReadStep, TellsTheUsefulBytesOfAnyCall) {
  const AlignedStep step{Route::kBounced, 0, 2 * kUnit, 100, 200};
  EXPECT_EQ(step.useful_of(0), 0U);
  EXPECT_EQ(step.useful_of(100), 0U);
  EXPECT_EQ(step.useful_of(101), 1U);
  EXPECT_EQ(step.useful_of(300), 200U);
  EXPECT_EQ(step.useful_of(2 * kUnit), 200U);
}

TEST(WriteStep, EdgesGoThroughThePageCache) {
  expect_step(write_step(kAlignment, 10, memory_at(10, 100 * kUnit), kBounce), Route::kBuffered, 10, kUnit - 10, 0,
              kUnit - 10);
  expect_step(write_step(kAlignment, 10, memory_at(10, 5), kBounce), Route::kBuffered, 10, 5, 0, 5);
  expect_step(write_step(kAlignment, kUnit, memory_at(0, 5), kBounce), Route::kBuffered, kUnit, 5, 0, 5);
}

TEST(WriteStep, WholeUnitsGoStraightOrThroughBounceMemory) {
  expect_step(write_step(kAlignment, kUnit, memory_at(512, 9 * kUnit + 1), kBounce), Route::kStraight, kUnit, 9 * kUnit,
              0, 9 * kUnit);
  expect_step(write_step(kAlignment, kUnit, memory_at(513, 9 * kUnit + 1), kBounce), Route::kBounced, kUnit, kBounce, 0,
              kBounce);
}

TEST(Steps, WithoutAlignmentThereIsOne) {
  for (const auto step_of : {read_step, write_step}) {
    expect_step(step_of({}, 7, memory_at(3, 100'000), kBounce), Route::kStraight, 7, 100'000, 0, 100'000);
  }
}

TEST(Steps, StayBelowWhatOneCallMoves) {
  const std::size_t large = std::size_t{5} << 30;
  for (const auto step_of : {read_step, write_step}) {
    EXPECT_EQ(step_of(kAlignment, 0, memory_at(0, large), kBounce).bytes, std::size_t{1} << 30);
    EXPECT_EQ(step_of({}, 7, memory_at(3, large), kBounce).bytes, std::size_t{1} << 30);
  }
}

// All the steps of one transfer, each moving all of its bytes.
std::vector<AlignedStep> steps_of(decltype(&read_step) step_of, std::uint64_t offset, ConstBuffer memory) {
  std::vector<AlignedStep> steps;
  for (std::size_t done = 0; done < memory.size; done += steps.back().useful) {
    steps.push_back(step_of(kAlignment, offset + done, memory.sub(done, memory.size - done), kBounce));
  }
  return steps;
}

TEST(Steps, OfAnyTransferAreWhatDirectCallsTake) {
  std::mt19937_64 random(1);
  const auto up_to = [&random](std::size_t most) { return static_cast<std::size_t>(random() % (most + 1)); };
  for (int round = 0; round < 20'000; ++round) {
    const std::uint64_t offset = up_to(3) * kUnit + (round % 2 == 0 ? 0 : up_to(kUnit));
    const ConstBuffer memory = memory_at(1'000 * kUnit + (round % 3 == 0 ? 0 : up_to(kUnit)), 1 + up_to(80 * kUnit));
    for (const auto step_of : {read_step, write_step}) {
      std::size_t done = 0;
      for (const AlignedStep& step : steps_of(step_of, offset, memory)) {
        ASSERT_GT(step.useful, 0U);
        ASSERT_EQ(step.offset + step.skip, offset + done);
        ASSERT_GE(step.bytes, step.skip + step.useful);
        if (step.route != Route::kBuffered) {
          ASSERT_EQ(step.offset % kUnit, 0U);
          ASSERT_EQ(step.bytes % kUnit, 0U);
        }
        if (step.route == Route::kBounced) {
          ASSERT_LE(step.bytes, kBounce);
        } else {
          ASSERT_EQ(step.bytes, step.useful);
        }
        if (step.route == Route::kStraight) {
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory.data + done) % 512, 0U);
        }
        done += step.useful;
      }
      ASSERT_EQ(done, memory.size);
    }
  }
}

TEST(Steps, OfWritesNeverMoveWhatIsNotTheirs) {
  // Two neighbours that meet inside a unit: whatever is moved directly is a whole unit of one of them.
  for (const std::size_t border : {kUnit - 1, kUnit, kUnit + 1, 3 * kUnit + 100}) {
    std::set<std::uint64_t> direct, buffered;
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, border}, {border, 8 * kUnit + 50}}) {
      for (const AlignedStep& step : steps_of(write_step, begin, memory_at(kUnit + begin, end - begin))) {
        ASSERT_GE(step.offset, begin);
        ASSERT_LE(step.offset + step.bytes, end);
        auto& units = step.route == Route::kBuffered ? buffered : direct;
        for (std::uint64_t unit = step.offset / kUnit; unit * kUnit < step.offset + step.bytes; ++unit) {
          units.insert(unit);
        }
      }
    }
    for (const std::uint64_t unit : buffered) EXPECT_FALSE(direct.contains(unit)) << border;
  }
}

TEST(BouncePool, GivesTheSamePiecesAgain) {
  BouncePool pool(kAlignment);
  EXPECT_EQ(pool.piece_bytes() % kUnit, 0U);
  AlignedMemory one = pool.take(), other = pool.take();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one.get()) % kUnit, 0U);
  const std::set<std::byte*> pieces{one.get(), other.get()};
  ASSERT_EQ(pieces.size(), 2U);
  pool.give_back(std::move(one));
  pool.give_back(std::move(other));
  const AlignedMemory again = pool.take(), once_more = pool.take();
  EXPECT_EQ((std::set<std::byte*>{again.get(), once_more.get()}), pieces);
}

TEST(WholeUnits, AreOneAtLeast) {
  EXPECT_EQ(whole_units(kAlignment, 10 * kUnit + 1), 10 * kUnit);
  EXPECT_EQ(whole_units(kAlignment, 1), kUnit);
  EXPECT_EQ(whole_units({}, 77), 77U);
}

}  // namespace
}  // namespace tzmark
