// Tests of what every I/O path does when the system fails it: at each of its calls, one after the other.
#include <gmock/gmock.h>

#include <cerrno>

#include "testing/caught.h"
#include "testing/faults/system_faults.h"
#include "testing/files/path_test.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::Fault;
using test::PlacedMemory;
using test::random_bytes;
using test::read;
using test::RefusedCall;
using test::SystemFault;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Fault kForgiven[] = {Fault::kInterrupted, Fault::kAgain, Fault::kShort};
constexpr Fault kFatal[] = {Fault::kError, Fault::kNoSpace};

// Where direct I/O has a head, whole units, and a tail.
constexpr std::uint64_t kFaultOffset = 4'000;
constexpr std::size_t kFaultBytes = 40'000;

class FaultTest : public test::PathTest {};

INSTANTIATE_TEST_SUITE_P(EveryPath, FaultTest, ::testing::ValuesIn(test::disk_paths()), test::test_name);

// Calls action(fault) with a fault at its call 0, 1, 2 and so on, until it makes no such call any more. Returns how
// many there were.
template <typename Action>
std::uint64_t at_every_call(Fault kind, Action&& action) {
  for (std::uint64_t call = 0;; ++call) {
    SCOPED_TRACE(fmt::format("fault {} at call {}", static_cast<int>(kind), call));
    if (!action(kind, call)) return call;
    if (call > 1'000) {
      ADD_FAILURE() << "it never ends";
      return call;
    }
  }
}

TEST_P(FaultTest, EveryCallIsSeen) {
  // Without this, a test of faults could pass because none comes.
  const auto file = create();
  const Bytes content = random_bytes(kFaultBytes, 1);
  const auto calls_of = [](auto&& action) {
    const SystemFault counter(Fault::kNone);
    action();
    return counter.calls();
  };
  EXPECT_GE(calls_of([&] { file->write_at(kFaultOffset, std::span(content)); }), 1U);
  EXPECT_GE(calls_of([&] { read(*file, kFaultOffset, kFaultBytes); }), 1U);
  EXPECT_GE(calls_of([&] { file->sync(); }), 1U);
}

TEST_P(FaultTest, InterruptedAndShortCallsAreForgiven) {
  const Bytes content = random_bytes(kFaultBytes, 2);
  for (const Fault kind : kForgiven) {
    for (const std::size_t distance : {kFaultOffset % 4096, std::uint64_t{1}}) {
      const PlacedMemory memory(content, distance);
      const auto calls = at_every_call(kind, [&](Fault fault, std::uint64_t call) {
        const std::string name = new_name();
        const auto file = open_file(name, OpenMode::kCreate, GetParam());
        const PlacedMemory back(kFaultBytes, distance);
        bool met = false;
        {
          const SystemFault armed(fault, call);
          file->reserve(kFaultOffset + kFaultBytes);
          file->write_at(kFaultOffset, memory.bytes());
          file->read_at(kFaultOffset, back.bytes());
          file->sync();
          met = armed.is_met();
        }
        EXPECT_TRUE(back == content);
        EXPECT_EQ(file->size(), kFaultOffset + kFaultBytes);
        EXPECT_EQ(std::filesystem::file_size(name), kFaultOffset + kFaultBytes);
        return met;
      });
      EXPECT_GE(calls, 3U);
    }
  }
}

TEST_P(FaultTest, ShortReadsAreNotTheEndOfTheFile) {
  // Direct I/O reads from the start of the block: half of that ends before the first byte that was asked for.
  const Bytes content = random_bytes(20'000, 10);
  const auto file = open(content);
  const Bytes expected(content.begin() + kFaultOffset, content.begin() + kFaultOffset + 50);
  at_every_call(Fault::kShort, [&](Fault fault, std::uint64_t call) {
    Bytes back(50);
    Transfer transfer{Transfer::Kind::kRead, kFaultOffset, std::span(back), nullptr, {}};
    const SystemFault armed(fault, call);
    EXPECT_EQ(caught([&] { EXPECT_EQ(read(*file, kFaultOffset, 50), expected); }), test::Caught{});
    const auto queue = file->make_queue(1);
    queue->start(transfer);
    EXPECT_FALSE(queue->wait().error);
    EXPECT_EQ(back, expected);
    return armed.is_met();
  });
}

TEST_P(FaultTest, AWriteThatFailsIsOneErrorAndCanBeDoneAgain) {
  const Bytes content = random_bytes(kFaultBytes, 3);
  for (const Fault kind : kFatal) {
    const auto calls = at_every_call(kind, [&](Fault fault, std::uint64_t call) {
      const auto file = create();
      test::Caught result;
      bool met = false;
      {
        const SystemFault armed(fault, call);
        result = caught([&] { file->write_at(kFaultOffset, std::span(content)); });
        met = armed.is_met();
      }
      if (!met) {
        EXPECT_EQ(result, test::Caught{});
        return false;
      }
      EXPECT_EQ(result.code, ErrorCode::kWriteFailed);
      EXPECT_TRUE(result.offset && *result.offset >= kFaultOffset && *result.offset < kFaultOffset + kFaultBytes)
          << result;
      file->write_at(kFaultOffset, std::span(content));
      EXPECT_EQ(read(*file, kFaultOffset, kFaultBytes), content);
      EXPECT_EQ(file->size(), kFaultOffset + kFaultBytes);
      return true;
    });
    EXPECT_GE(calls, 1U);
  }
}

TEST_P(FaultTest, AReadThatFailsIsOneErrorAndCanBeDoneAgain) {
  const Bytes content = random_bytes(kFaultOffset + kFaultBytes + 5'000, 4);
  const auto file = open(content);
  const Bytes expected(content.begin() + kFaultOffset, content.begin() + kFaultOffset + kFaultBytes);
  const auto calls = at_every_call(Fault::kError, [&](Fault fault, std::uint64_t call) {
    test::Caught result;
    bool met = false;
    {
      const SystemFault armed(fault, call);
      result = caught([&] { read(*file, kFaultOffset, kFaultBytes); });
      met = armed.is_met();
    }
    if (met) {
      EXPECT_EQ(result.code, ErrorCode::kReadFailed);
      EXPECT_TRUE(result.offset && *result.offset >= kFaultOffset && *result.offset < kFaultOffset + kFaultBytes)
          << result;
    } else {
      EXPECT_EQ(result, test::Caught{});
    }
    EXPECT_EQ(read(*file, kFaultOffset, kFaultBytes), expected);
    return met;
  });
  EXPECT_GE(calls, 1U);
}

TEST_P(FaultTest, SyncAndReserveSayWhatFailed) {
  const auto file = create();
  const Bytes content = random_bytes(kFaultBytes, 5);
  for (const Fault kind : kFatal) {
    at_every_call(kind, [&](Fault fault, std::uint64_t call) {
      const SystemFault armed(fault, call);
      const auto result = caught([&] { file->reserve(kFaultBytes); });
      EXPECT_EQ(result.code.value_or(ErrorCode::kWriteFailed), ErrorCode::kWriteFailed);
      EXPECT_EQ(result.code.has_value(), armed.is_met());
      return armed.is_met();
    });
    const auto calls = at_every_call(kind, [&](Fault fault, std::uint64_t call) {
      file->write_at(0, std::span(content));
      const SystemFault armed(fault, call);
      const auto result = caught([&] { file->sync(); });
      // stdio writes its buffer first.
      if (armed.is_met()) {
        EXPECT_THAT(result.code, ::testing::AnyOf(ErrorCode::kSyncFailed, ErrorCode::kWriteFailed));
      }
      return armed.is_met();
    });
    EXPECT_GE(calls, 1U);
  }
}

// Pieces of a file that meet inside blocks, and a queue through which they go.
class QueueOfPieces {
 public:
  QueueOfPieces(File& file, unsigned depth) : queue_(file.make_queue(depth)) {}

  // Moves all of memory, from offset 0 on.
  std::vector<test::Caught> run(Transfer::Kind kind, Bytes& memory) {
    constexpr std::size_t kPieceBytes = 5'001;
    std::vector<Transfer> transfers;
    for (std::size_t at = 0; at < memory.size(); at += kPieceBytes) {
      const std::size_t count = std::min(kPieceBytes, memory.size() - at);
      transfers.push_back({kind, at, std::span(memory).subspan(at, count), nullptr, {}});
    }
    for (Transfer& transfer : transfers) {
      if (queue_->in_flight() == queue_->depth()) queue_->wait();
      queue_->start(transfer);
    }
    while (queue_->in_flight() > 0) queue_->wait();
    std::vector<test::Caught> results;
    for (const Transfer& transfer : transfers) {
      results.push_back(caught([&] {
        if (transfer.error) std::rethrow_exception(transfer.error);
      }));
    }
    return results;
  }

 private:
  std::unique_ptr<TransferQueue> queue_;
};

bool has_no_error(const std::vector<test::Caught>& results) {
  return std::ranges::all_of(results, [](const test::Caught& result) { return !result.code; });
}

TEST_P(FaultTest, QueuesForgiveInterruptedAndShortCalls) {
  Bytes content = random_bytes(30'000, 6);
  for (const Fault kind : kForgiven) {
    const auto calls = at_every_call(kind, [&](Fault fault, std::uint64_t call) {
      const auto file = create();
      Bytes back(content.size());
      bool met = false;
      {
        const SystemFault armed(fault, call);
        QueueOfPieces queue(*file, 4);
        EXPECT_TRUE(has_no_error(queue.run(Transfer::Kind::kWrite, content)));
        EXPECT_TRUE(has_no_error(queue.run(Transfer::Kind::kRead, back)));
        met = armed.is_met();
      }
      EXPECT_EQ(back, content);
      EXPECT_EQ(file->size(), content.size());
      return met;
    });
    EXPECT_GE(calls, 12U);
  }
}

TEST_P(FaultTest, InAQueueOneTransferFailsAndTheOthersGoOn) {
  Bytes content = random_bytes(30'000, 7);
  for (const Transfer::Kind kind : {Transfer::Kind::kWrite, Transfer::Kind::kRead}) {
    const bool reads = kind == Transfer::Kind::kRead;
    const auto calls = at_every_call(Fault::kError, [&](Fault fault, std::uint64_t call) {
      const auto file = reads ? open(content) : create();
      Bytes back(content.size());
      Bytes& memory = reads ? back : content;
      QueueOfPieces queue(*file, 4);
      std::vector<test::Caught> results;
      bool met = false;
      {
        const SystemFault armed(fault, call);
        results = queue.run(kind, memory);
        met = armed.is_met();
      }
      const auto failed =
          std::ranges::count_if(results, [](const test::Caught& result) { return result.code.has_value(); });
      EXPECT_EQ(failed, met ? 1 : 0);
      for (const test::Caught& result : results) {
        if (!result.code) continue;
        EXPECT_EQ(result.code, reads ? ErrorCode::kReadFailed : ErrorCode::kWriteFailed);
        EXPECT_LT(result.offset.value(), content.size());
      }
      // The same queue does it then.
      EXPECT_TRUE(has_no_error(queue.run(kind, memory)));
      EXPECT_EQ(read(*file, 0, content.size()), content);
      if (reads) {
        EXPECT_EQ(back, content);
      }
      return met;
    });
    EXPECT_GE(calls, 6U);
  }
}

TEST_P(FaultTest, NoPartOfAFileAppearsUnderItsName) {
  const std::string name = directory_ / "out";
  const Bytes content = random_bytes(kFaultBytes, 8);
  for (const Fault kind : {Fault::kError, Fault::kNoSpace, Fault::kInterrupted, Fault::kShort}) {
    const bool fatal = kind == Fault::kError || kind == Fault::kNoSpace;
    const auto calls = at_every_call(kind, [&](Fault fault, std::uint64_t call) {
      bool met = false;
      test::Caught result;
      {
        const SystemFault armed(fault, call);
        result = caught([&] {
          AtomicFile output(name, GetParam());
          output.file().reserve(kFaultBytes);
          output.file().write_at(0, std::span(content).first(10'001));
          output.file().write_at(10'001, std::span(content).subspan(10'001));
          output.commit();
        });
        met = armed.is_met();
      }
      if (result.code) {
        EXPECT_TRUE(fatal) << result;
        EXPECT_THAT(error_info(*result.code).error_class,
                    ::testing::AnyOf(ErrorClass::kEnvironment, ErrorClass::kUnavailable));
      }
      // The whole file, or none; and nothing else in the directory.
      if (std::filesystem::exists(name)) {
        EXPECT_EQ(test::read_whole(name), content);
        std::filesystem::remove(name);
      } else {
        EXPECT_TRUE(result.code);
      }
      EXPECT_THAT(directory_.entries(), IsEmpty());
      return met;
    });
    EXPECT_GE(calls, 3U);
  }
}

TEST_P(FaultTest, WithoutAllocatingAheadFilesAreTheSame) {
  const RefusedCall refused(RefusedCall::Call::kAllocate, EOPNOTSUPP);
  const std::string name = new_name();
  const auto file = open_file(name, OpenMode::kCreate, GetParam());
  const Bytes content = random_bytes(300'001, 9);
  file->reserve(content.size());
  file->write_at(0, std::span(content).first(100'000));
  file->write_at(100'000, std::span(content).subspan(100'000));
  EXPECT_EQ(file->size(), content.size());
  EXPECT_EQ(read(*file, 0, content.size()), content);
  file->sync();
  EXPECT_EQ(test::read_whole(name), content);
}

}  // namespace
}  // namespace tzmark
