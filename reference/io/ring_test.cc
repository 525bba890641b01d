// Tests of the io_uring paths when the kernel refuses calls or rings, and when a ring breaks with calls in flight.
#include <gmock/gmock.h>

#include <atomic>
#include <cerrno>
#include <optional>
#include <thread>

#include "testing/caught.h"
#include "testing/faults/system_faults.h"
#include "testing/files/path_test.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/shortage.h"

namespace tzmark {
namespace {

using test::BrokenRings;
using test::Bytes;
using test::caught;
using test::Fault;
using test::random_bytes;
using test::read;
using test::RefusedCompletions;
using test::RefusedRings;
using test::SystemFault;

constexpr int kRefusals[] = {ECANCELED, ENOMEM, EBUSY, EAGAIN, EINTR};
constexpr int kShortages[] = {ENOMEM, EAGAIN, EMFILE, ENFILE};
constexpr std::uint64_t kAll = ~std::uint64_t{0};

// Where direct I/O has a head, whole units, and a tail.
constexpr std::uint64_t kRingOffset = 4'000;
constexpr std::size_t kRingBytes = 40'000;

class RingTest : public test::PathTest {
 protected:
  // Writes and reads by single calls and through a queue, in pieces that meet inside blocks. Nothing may be in flight
  // at the end.
  void expect_bytes_to_move(File& file) {
    const Bytes content = random_bytes(kRingBytes, 1);
    file.write_at(kRingOffset, std::span(content));
    EXPECT_EQ(test::entries_in_kernel(), 0);
    EXPECT_EQ(read(file, kRingOffset, kRingBytes), content);
    EXPECT_EQ(test::entries_in_kernel(), 0);
    Bytes other = random_bytes(30'000, 2), back(other.size());
    EXPECT_EQ(errors_of(file, Transfer::Kind::kWrite, other), 0);
    EXPECT_EQ(errors_of(file, Transfer::Kind::kRead, back), 0);
    EXPECT_TRUE(back == other);
  }

  // Moves all of memory through a queue, from offset 0 on. Returns how many transfers failed.
  int errors_of(File& file, Transfer::Kind kind, Bytes& memory) {
    constexpr std::size_t kPieceBytes = 5'001;
    std::vector<Transfer> transfers;
    for (std::size_t at = 0; at < memory.size(); at += kPieceBytes) {
      const std::size_t count = std::min(kPieceBytes, memory.size() - at);
      transfers.push_back({kind, at, std::span(memory).subspan(at, count), nullptr, {}});
    }
    {
      const auto queue = file.make_queue(4);
      const MutableBuffer all{std::span(memory)};
      queue->register_memory({&all, 1});
      std::size_t through = 0;
      for (Transfer& transfer : transfers) {
        if (queue->in_flight() == queue->depth()) {
          queue->wait();
          ++through;
        }
        queue->start(transfer);
      }
      // What is not waited for is through when the queue is gone.
      for (; queue->in_flight() > 2; ++through) queue->wait();
      EXPECT_GE(through + 2, transfers.size());
    }
    EXPECT_EQ(test::entries_in_kernel(), 0);
    return static_cast<int>(std::ranges::count_if(transfers, [](const Transfer& t) { return t.error != nullptr; }));
  }
};

std::vector<std::string> ring_paths() { return {"uring", "uring-direct", "uring-sqpoll"}; }

INSTANTIATE_TEST_SUITE_P(EveryPath, RingTest, ::testing::ValuesIn(ring_paths()), test::test_name);

std::uint64_t in_place() { return shortage().transfers_in_place; }

TEST_P(RingTest, UndisturbedNothingIsMovedInPlace) {
  const std::uint64_t before = in_place();
  expect_bytes_to_move(*create());
  EXPECT_EQ(in_place(), before);
}

// Another thread's ring may get the memory of one that is closed, in an order that only the kernel knows.
TEST_P(RingTest, MemoryOfClosedRingsIsUsedAgain) {
  const auto file = create();
  // Relaxed, so that the threads are ordered by nothing but their rings.
  std::atomic<bool> closed = false;
  const auto write = [&](std::uint64_t offset) {
    Bytes content = random_bytes(kRingBytes, offset);
    const auto queue = file->make_queue(4);
    Transfer transfer{Transfer::Kind::kWrite, offset, std::span(content), nullptr, {}};
    queue->start(transfer);
    queue->wait();
    EXPECT_EQ(transfer.error, nullptr);
  };
  std::jthread first([&] {
    write(0);
    closed.store(true, std::memory_order_relaxed);
  });
  std::jthread second([&] {
    while (!closed.load(std::memory_order_relaxed)) std::this_thread::yield();
    write(1 << 20);
  });
}

TEST_P(RingTest, CallsThatTheKernelRefusesAreMadeAgain) {
  for (const int error_number : kRefusals) {
    for (const std::uint64_t count : {1U, 2U}) {
      SCOPED_TRACE(fmt::format("errno {}, {} times", error_number, count));
      const std::uint64_t before = in_place();
      const auto file = create();
      const RefusedCompletions refused(error_number, count);
      expect_bytes_to_move(*file);
      EXPECT_EQ(refused.met(), count);
      EXPECT_EQ(in_place(), before);
    }
  }
}

TEST_P(RingTest, CallsThatTheKernelRefusesAgainAndAgainAreMadeInPlace) {
  for (const int error_number : kRefusals) {
    SCOPED_TRACE(error_number);
    const std::uint64_t before = in_place();
    const auto file = create();
    {
      const RefusedCompletions refused(error_number, kAll);
      expect_bytes_to_move(*file);
      EXPECT_GT(refused.met(), 0U);
    }
    EXPECT_GT(in_place(), before);
    const std::uint64_t after = in_place();
    expect_bytes_to_move(*file);
    EXPECT_EQ(in_place(), after) << "the ring is not asked any more";
  }
}

TEST_P(RingTest, PartsOfPagesAreWrittenWithoutTheRingWhereDirectIoHasNone) {
  const auto file = create();
  const Bytes content = random_bytes(96, 5);
  const std::uint64_t before = in_place();
  {
    const RefusedCompletions refused(ECANCELED, kAll);
    file->write_at(kRingOffset, std::span(content));
    EXPECT_EQ(refused.met() > 0, file->transfer_align_bytes() == 1);
    EXPECT_EQ(in_place() > before, file->transfer_align_bytes() == 1) << "counts what the ring could not do";
  }
  EXPECT_EQ(read(*file, kRingOffset, content.size()), content);
}

TEST_P(RingTest, OtherErrorsAreThoseOfTheFile) {
  for (const int error_number : {EIO, ENOSPC, EINVAL}) {
    const std::uint64_t before = in_place();
    const auto file = create();
    Bytes content = random_bytes(kRingBytes, 3);
    file->write_at(0, std::span(content));
    const RefusedCompletions refused(error_number, kAll);
    EXPECT_EQ(caught([&] { read(*file, 0, 100); }), test::failure(ErrorCode::kReadFailed, 0));
    EXPECT_EQ(errors_of(*file, Transfer::Kind::kRead, content), 8);
    EXPECT_EQ(in_place(), before);
  }
}

TEST_P(RingTest, InPlaceTooCallsMayBeShortOrFail) {
  Bytes content = random_bytes(kRingBytes, 4);
  const auto file = open(content);
  const RefusedCompletions refused(ECANCELED, kAll);
  for (const Fault fault : {Fault::kShort, Fault::kInterrupted, Fault::kError}) {
    // Completions count as calls of the system too, so that some of these faults come before the call in place.
    for (std::uint64_t call = 0; call < 8; ++call) {
      SCOPED_TRACE(fmt::format("fault {} at call {}", static_cast<int>(fault), call));
      std::optional<test::Caught> single;
      Bytes back(kRingBytes);
      int failed = 0;
      {
        const SystemFault armed(fault, call);
        single =
            caught([&] { EXPECT_EQ(read(*file, 77, 30'000), Bytes(content.begin() + 77, content.begin() + 30'077)); });
      }
      {
        const SystemFault armed(fault, call);
        failed = errors_of(*file, Transfer::Kind::kRead, back);
      }
      if (fault == Fault::kError) {
        EXPECT_TRUE(*single == test::Caught{} || single->code == ErrorCode::kReadFailed);
        EXPECT_LE(failed, 1);
        continue;
      }
      EXPECT_EQ(*single, test::Caught{});
      EXPECT_EQ(failed, 0);
      EXPECT_TRUE(back == content);
    }
  }
}

TEST_P(RingTest, WithoutARingToBeHadBytesMoveInPlace) {
  for (const int error_number : kShortages) {
    const std::uint64_t before = in_place();
    const auto file = create();
    {
      const RefusedRings refused(error_number);
      expect_bytes_to_move(*file);
    }
    EXPECT_GT(in_place(), before);
  }
}

// Breaks the ring at each call that hands it entries, one after the other.
template <typename Action>
std::uint64_t breaking_at_every_call(BrokenRings::When when, int error_number, Action&& action) {
  for (std::uint64_t call = 0;; ++call) {
    SCOPED_TRACE(fmt::format("errno {} at call {}", error_number, call));
    const BrokenRings broken(when, error_number, call);
    action();
    if (!broken.is_met()) return call;
  }
}

TEST_P(RingTest, ARingThatBreaksLetsGoOfMemoryFirst) {
  // If it did not, the kernel would read into memory that its owner has freed.
  for (const int error_number : {ENXIO, ENOMEM}) {
    const auto calls =
        breaking_at_every_call(BrokenRings::When::kAfterwards, error_number, [&] { expect_bytes_to_move(*create()); });
    EXPECT_GE(calls, 8U);
  }
}

TEST_P(RingTest, EntriesThatTheKernelHasNotTakenAreMovedInPlace) {
  for (const int error_number : {ENXIO, EAGAIN}) {
    const std::uint64_t before = in_place();
    breaking_at_every_call(BrokenRings::When::kBeforeTheKernelTakesEntries, error_number,
                           [&] { expect_bytes_to_move(*create()); });
    EXPECT_GT(in_place(), before);
  }
}

// Else the ring would be waited for without an end.
TEST_P(RingTest, AThreadThatSleepsIsWokenForWhatItWasShown) {
  const auto calls = breaking_at_every_call(BrokenRings::When::kBeforeItsThreadWakes, ENOMEM,
                                            [&] { expect_bytes_to_move(*create()); });
  EXPECT_GE(calls, 8U);
}

TEST_P(RingTest, AKernelThatCannotBeWaitedForEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto file = open(random_bytes(kRingBytes, 5));
  const auto single = [&] {
    const BrokenRings broken(BrokenRings::When::kForEver, ENXIO);
    read(*file, 0, 100);
  };
  const auto queue = [&] {
    const BrokenRings broken(BrokenRings::When::kForEver, ENXIO);
    Bytes back(kRingBytes);
    errors_of(*file, Transfer::Kind::kRead, back);
  };
  EXPECT_DEATH(single(), "waiting for io_uring failed \\(No such device or address\\)");
  EXPECT_DEATH(queue(), "waiting for io_uring failed");
}

}  // namespace
}  // namespace tzmark
