// Tests that hold for every I/O path: of transfers of any offset, length and memory, of room that is reserved, of
// holes, and of queues.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <set>
#include <string>
#include <system_error>
#include <thread>

#include "testing/caught.h"
#include "testing/files/path_test.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::on_four_threads;
using test::PlacedMemory;
using test::random_bytes;
using test::read;

// Around everything that a block, a page or a piece could be.
constexpr std::size_t kEdges[] = {0, 1, 511, 512, 513, 4095, 4096, 4097, 8192, 65'536, 262'145};

class TransferTest : public test::PathTest {
 protected:
  // Writes to a name, for other paths to read.
  std::pair<std::string, std::unique_ptr<File>> create_named() {
    std::string name = new_name();
    auto file = open_file(name, OpenMode::kCreate, GetParam());
    return {std::move(name), std::move(file)};
  }
};

INSTANTIATE_TEST_SUITE_P(EveryPath, TransferTest, ::testing::ValuesIn(test::disk_paths()), test::test_name);

Bytes part(const Bytes& content, std::size_t offset, std::size_t count) {
  const auto begin = content.begin() + static_cast<std::ptrdiff_t>(offset);
  return {begin, begin + static_cast<std::ptrdiff_t>(count)};
}

TEST_P(TransferTest, ReadsAnyRangeIntoAnyMemory) {
  const Bytes content = random_bytes(600'000, 1);
  const auto file = open(content);
  for (const std::size_t offset : kEdges) {
    for (const std::size_t count : kEdges) {
      for (const std::size_t distance : {std::size_t{0}, std::size_t{1}, offset % 4096}) {
        const PlacedMemory memory(count, distance);
        file->read_at(offset, memory.bytes());
        ASSERT_TRUE(memory == part(content, offset, count)) << offset << " " << count << " " << distance;
      }
    }
  }
}

TEST_P(TransferTest, ReadsRangesThatEndWithTheFileAndNothingBehind) {
  for (const std::size_t bytes : {1UL, 511UL, 4095UL, 4096UL, 4097UL, 70'000UL}) {
    const Bytes content = random_bytes(bytes, 2);
    const auto file = open(content);
    for (const std::size_t back : {1UL, 2UL, 600UL, 5'000UL, 70'000UL}) {
      if (back > bytes) continue;
      EXPECT_EQ(read(*file, bytes - back, back), part(content, bytes - back, back)) << bytes << " " << back;
      EXPECT_EQ(caught([&, at = bytes - back] { read(*file, at, back + 1); }), failure(ErrorCode::kFileChanged, bytes));
    }
  }
}

TEST_P(TransferTest, WritesAnyRangeFromAnyMemory) {
  for (const std::size_t offset : kEdges) {
    const auto [name, file] = create_named();
    Bytes expected = random_bytes(600'000, 3);
    file->write_at(0, std::span(expected));
    for (const std::size_t count : kEdges) {
      for (const std::size_t distance : {std::size_t{0}, std::size_t{1}, offset % 4096}) {
        const Bytes content = random_bytes(count, count + distance);
        const PlacedMemory memory(content, distance);
        file->write_at(offset, memory.bytes());
        std::ranges::copy(content, expected.begin() + static_cast<std::ptrdiff_t>(offset));
        ASSERT_TRUE(memory == content) << "a write changed its memory";
      }
      ASSERT_EQ(read(*file, 0, expected.size()), expected) << offset << " " << count;
    }
    file->sync();
    EXPECT_EQ(file->size(), expected.size());
    EXPECT_EQ(test::read_whole(name), expected) << offset;
  }
}

TEST_P(TransferTest, LargePiecesBesideOddOnes) {
  const Bytes content = random_bytes((3 << 20) + 4097, 4);
  for (const std::size_t distance : {0, 77}) {
    const PlacedMemory memory(content, distance);
    const auto [name, file] = create_named();
    file->write_at(0, ConstBuffer(memory.bytes()).sub(0, 100));
    file->write_at(100, ConstBuffer(memory.bytes()).sub(100, content.size() - 100));
    const PlacedMemory back(content.size(), distance + 1);
    file->read_at(0, back.bytes());
    EXPECT_TRUE(back == content);
    EXPECT_EQ(file->size(), content.size());
    file->sync();
    EXPECT_EQ(test::read_whole(name), content);
  }
}

TEST_P(TransferTest, EveryPathReadsWhatThisOneWrote) {
  const Bytes content = random_bytes(1'000'003, 5);
  const auto [name, file] = create_named();
  file->write_at(0, std::span(content).first(333'333));
  file->write_at(333'333, std::span(content).subspan(333'333));
  file->sync();
  for (const IoPath& path : io_paths()) {
    if (!test::why_unusable(path, directory_).empty()) continue;
    const auto other = open_file(name, OpenMode::kRead, path.name);
    EXPECT_EQ(other->size(), content.size()) << path.name;
    EXPECT_EQ(read(*other, 0, content.size()), content) << path.name;
    EXPECT_EQ(read(*other, 999, 100'001), part(content, 999, 100'001)) << path.name;
  }
}

TEST_P(TransferTest, NeighboursShareBlocksWithoutHarm) {
  // Pieces of all threads meet inside blocks, again and again: a path that read, changed and wrote back a block would
  // lose what a neighbour wrote meanwhile.
  constexpr std::size_t kPieces = 400;
  constexpr std::size_t kPieceBytes = 5'003;
  const Bytes content = random_bytes(kPieces * kPieceBytes, 6);
  for (const bool reserved : {false, true}) {
    const auto [name, file] = create_named();
    if (reserved) file->reserve(content.size());
    on_four_threads([&, &target = *file](int thread) {
      for (std::size_t piece = static_cast<std::size_t>(thread); piece < kPieces; piece += 4) {
        target.write_at(piece * kPieceBytes, std::span(content).subspan(piece * kPieceBytes, kPieceBytes));
        // What was just written is read during the writes of the neighbours.
        if (read(target, piece * kPieceBytes, kPieceBytes) != part(content, piece * kPieceBytes, kPieceBytes)) {
          ADD_FAILURE() << "piece " << piece << " reads otherwise than it was written";
        }
      }
    });
    EXPECT_EQ(file->size(), content.size());
    EXPECT_EQ(read(*file, 0, content.size()), content);
    file->sync();
    EXPECT_EQ(test::read_whole(name), content);
  }
}

TEST_P(TransferTest, AnExpectedSyncChangesNoBytes) {
  constexpr std::size_t kPieceBytes = 700'001;  // large enough to be written back at once
  const Bytes content = random_bytes(8 * kPieceBytes, 11);
  const auto [name, file] = create_named();
  file->expect_sync();
  on_four_threads([&, &target = *file](int thread) {
    for (std::size_t piece = static_cast<std::size_t>(thread); piece < 8; piece += 4) {
      target.write_at(piece * kPieceBytes, std::span(content).subspan(piece * kPieceBytes, kPieceBytes));
    }
  });
  EXPECT_EQ(read(*file, 0, content.size()), content);
  file->sync();
  EXPECT_EQ(test::read_whole(name), content);
}

TEST_P(TransferTest, ReservedRoomIsFilled) {
  const Bytes content = random_bytes(300'001, 7);
  const auto [name, file] = create_named();
  file->reserve(content.size());
  EXPECT_THAT(file->size(), ::testing::AnyOf(0U, content.size()));
  file->write_at(100'000, std::span(content).subspan(100'000));
  file->write_at(0, std::span(content).first(100'000));
  EXPECT_EQ(file->size(), content.size());
  // A wish that is already fulfilled changes nothing.
  file->reserve(1'000);
  file->reserve(0);
  file->sync();
  EXPECT_EQ(file->size(), content.size());
  EXPECT_EQ(test::read_whole(name), content);
}

TEST_P(TransferTest, ReservesNoMoreThanThereIs) {
  const auto [name, file] = create_named();
  test::Caught result;
  {
    const test::FileSizeLimit limit(100'000);
    result = caught([&, &target = *file] { target.reserve(200'000); });
  }
  // A path may have no use for it; one that has says that there is no room.
  EXPECT_TRUE(result == test::Caught{} || result.code == ErrorCode::kWriteFailed) << result;
  EXPECT_EQ(file->size(), std::filesystem::file_size(name));
}

TEST_P(TransferTest, HolesAreZeros) {
  const std::string name = new_name();
  const Bytes content = random_bytes(5'000, 8);
  test::write_whole(name, content);
  std::filesystem::resize_file(name, 3'000'000);
  const auto file = open_file(name, OpenMode::kModify, GetParam());
  Bytes expected(3'000'000);
  std::ranges::copy(content, expected.begin());
  EXPECT_EQ(read(*file, 0, expected.size()), expected);
  file->write_at(2'000'001, std::span(content));
  std::ranges::copy(content, expected.begin() + 2'000'001);
  EXPECT_EQ(read(*file, 0, expected.size()), expected);
  EXPECT_EQ(read(*file, 1'000'000, 10), Bytes(10));
  file->sync();
  EXPECT_EQ(test::read_whole(name), expected);
}

TEST_P(TransferTest, SeesWhatOthersAppend) {
  const std::string name = new_name();
  const Bytes content = random_bytes(200'000, 9);
  test::write_whole(name, std::span(content).first(10'000));
  const auto file = open_file(name, OpenMode::kRead, GetParam());
  EXPECT_EQ(read(*file, 0, 10'000), part(content, 0, 10'000));
  const auto other = open_file(name, OpenMode::kModify, "pwrite");
  other->write_at(10'000, std::span(content).subspan(10'000));
  other->sync();
  EXPECT_EQ(read(*file, 10'000, 190'000), part(content, 10'000, 190'000));
}

// Queues of any depth.
class QueueTest : public TransferTest {};

INSTANTIATE_TEST_SUITE_P(EveryPath, QueueTest, ::testing::ValuesIn(test::disk_paths()), test::test_name);

// Starts all transfers, as many at a time as the queue takes, and returns them in the order in which they were through.
std::vector<Transfer*> run(TransferQueue& queue, std::vector<Transfer>& transfers) {
  std::vector<Transfer*> through;
  for (Transfer& transfer : transfers) {
    if (queue.in_flight() == queue.depth()) through.push_back(&queue.wait());
    queue.start(transfer);
  }
  while (queue.in_flight() > 0) through.push_back(&queue.wait());
  return through;
}

void expect_no_errors(const std::vector<Transfer>& transfers) {
  for (const Transfer& transfer : transfers) {
    if (transfer.error) std::rethrow_exception(transfer.error);
  }
}

// Pieces of odd sizes that together are a whole, in random order.
std::vector<std::pair<std::size_t, std::size_t>> pieces_of(std::size_t bytes) {
  std::mt19937_64 random(bytes);
  std::vector<std::pair<std::size_t, std::size_t>> pieces;
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t edge = kEdges[random() % std::size(kEdges)];
    const std::size_t count = std::min(bytes - at, edge);
    pieces.emplace_back(at, count);
    at += count;
  }
  std::ranges::shuffle(pieces, random);
  return pieces;
}

TEST_P(QueueTest, HasTheDepthThatIsAskedForOrOne) {
  const auto file = create();
  for (const unsigned depth : {0U, 1U, 2U, 3U, 16U, 64U}) {
    const auto queue = file->make_queue(depth);
    EXPECT_EQ(queue->depth(), file->is_asynchronous() ? std::max(1U, depth) : 1U);
    EXPECT_EQ(queue->in_flight(), 0U);
  }
}

TEST_P(QueueTest, SaysWhatServesItWell) {
  const auto file = create();
  if (file->is_asynchronous()) {
    EXPECT_GT(file->queue_depth_default(), 1U);
  }
}

TEST_P(QueueTest, MovesEverythingAtAnyDepth) {
  constexpr std::size_t kBytes = 2'500'000;
  const Bytes content = random_bytes(kBytes, 10);
  for (const unsigned depth : {1U, 4U, 64U}) {
    for (const bool registers : {false, true}) {
      const auto [name, file] = create_named();
      PlacedMemory memory(content, depth);
      const PlacedMemory back(kBytes, 0);
      const auto queue = file->make_queue(depth);
      const std::vector<MutableBuffer> buffers{memory.bytes(), back.bytes().first(kBytes / 2)};
      if (registers) queue->register_memory(buffers);
      std::vector<Transfer> transfers;
      for (const auto& [offset, count] : pieces_of(kBytes)) {
        transfers.push_back({Transfer::Kind::kWrite, offset, memory.bytes().subspan(offset, count), nullptr, {}});
      }
      const auto written = run(*queue, transfers);
      EXPECT_EQ(std::set(written.begin(), written.end()).size(), transfers.size());
      expect_no_errors(transfers);
      EXPECT_EQ(file->size(), kBytes);
      for (Transfer& transfer : transfers) {
        transfer.kind = Transfer::Kind::kRead;
        transfer.memory = back.bytes().subspan(transfer.offset, transfer.memory.size);
      }
      run(*queue, transfers);
      expect_no_errors(transfers);
      EXPECT_TRUE(back == content);
      file->sync();
      EXPECT_EQ(test::read_whole(name), content);
    }
  }
}

TEST_P(QueueTest, OverwritesNoMoreThanItMayOfWhatFollowsTheMemory) {
  constexpr std::size_t kPage = 4096;
  const Bytes content = random_bytes(3 * kPage + 100, 20);
  const auto file = open(content);
  const auto queue = file->make_queue(4);
  const Bytes untouched(4 * kPage, std::byte{0xA5});
  for (const std::size_t offset : {std::size_t{0}, kPage, 3 * kPage}) {
    for (const std::size_t left : {std::size_t{0}, std::size_t{1}, std::size_t{60}}) {
      for (const std::size_t spare : {std::size_t{0}, std::size_t{1}, std::size_t{3'000}, kPage}) {
        PlacedMemory memory(untouched, 0);
        const std::size_t count = content.size() - offset - left;
        const std::size_t may_change = std::min(count + spare, untouched.size());
        std::vector<Transfer> transfers;
        transfers.push_back(
            {Transfer::Kind::kRead, offset, memory.bytes().first(count), nullptr, {}, may_change - count});
        run(*queue, transfers);
        expect_no_errors(transfers);
        EXPECT_TRUE(std::ranges::equal(memory.bytes().first(count), std::span(content).subspan(offset, count)));
        EXPECT_TRUE(std::ranges::equal(memory.bytes().subspan(may_change), std::span(untouched).subspan(may_change)))
            << offset << " " << left << " " << spare;
      }
    }
  }
}

TEST_P(QueueTest, ReadsAndWritesTogether) {
  constexpr std::size_t kPieceBytes = 50'001;
  constexpr std::size_t kPieces = 30;
  const Bytes content = random_bytes(kPieces * kPieceBytes, 11);
  Bytes other = random_bytes(content.size(), 12);
  const std::string name = new_name();
  Bytes both = content;
  both.insert(both.end(), content.size(), std::byte{0});
  test::write_whole(name, both);
  const auto file = open_file(name, OpenMode::kModify, GetParam());
  const auto queue = file->make_queue(8);
  Bytes back(content.size());
  std::vector<Transfer> transfers;
  // Each piece of the first half is read, while the second half is written.
  for (std::size_t piece = 0; piece < kPieces; ++piece) {
    const std::size_t at = piece * kPieceBytes;
    transfers.push_back({Transfer::Kind::kRead, at, std::span(back).subspan(at, kPieceBytes), &back, {}});
    transfers.push_back(
        {Transfer::Kind::kWrite, content.size() + at, std::span(other).subspan(at, kPieceBytes), &other, {}});
  }
  for (const Transfer* transfer : run(*queue, transfers)) {
    EXPECT_EQ(transfer->owner, transfer->kind == Transfer::Kind::kRead ? &back : &other);
  }
  expect_no_errors(transfers);
  EXPECT_EQ(back, content);
  EXPECT_EQ(read(*file, content.size(), other.size()), other);
}

TEST_P(QueueTest, ManyThreadsEachWithOne) {
  constexpr std::size_t kPieceBytes = 3'001;
  constexpr std::size_t kPieces = 400;
  Bytes content = random_bytes(kPieces * kPieceBytes, 13);
  const auto [name, file] = create_named();
  on_four_threads([&, &target = *file](int thread) {
    const auto queue = target.make_queue(4);
    std::vector<Transfer> transfers;
    for (std::size_t piece = static_cast<std::size_t>(thread); piece < kPieces; piece += 4) {
      const std::size_t at = piece * kPieceBytes;
      transfers.push_back({Transfer::Kind::kWrite, at, std::span(content).subspan(at, kPieceBytes), nullptr, {}});
    }
    run(*queue, transfers);
    for (const Transfer& transfer : transfers) EXPECT_FALSE(transfer.error);
  });
  EXPECT_EQ(file->size(), content.size());
  EXPECT_EQ(read(*file, 0, content.size()), content);
  file->sync();
  EXPECT_EQ(test::read_whole(name), content);
}

TEST_P(QueueTest, ErrorsBelongToTheirTransfers) {
  const Bytes content = random_bytes(100'000, 14);
  const auto file = open(content);
  const auto queue = file->make_queue(8);
  Bytes whole(100'000), behind(5'000), across(60'000), untouched(10);
  std::vector<Transfer> transfers{
      {Transfer::Kind::kRead, 0, std::span(whole), nullptr, {}},
      {Transfer::Kind::kRead, 200'000, std::span(behind), nullptr, {}},
      {Transfer::Kind::kRead, 50'000, std::span(across), nullptr, {}},
      {Transfer::Kind::kWrite, 77, std::span(untouched), nullptr, {}},
      {Transfer::Kind::kRead, 0, {untouched.data(), 10, MemoryKind::kDevice}, nullptr, {}},
      {Transfer::Kind::kRead, 300'000, {}, nullptr, {}},
  };
  EXPECT_EQ(run(*queue, transfers).size(), transfers.size());
  const auto error_of = [](const Transfer& transfer) {
    return caught([&] {
      if (transfer.error) std::rethrow_exception(transfer.error);
    });
  };
  EXPECT_EQ(error_of(transfers[0]), test::Caught{});
  EXPECT_EQ(error_of(transfers[1]), failure(ErrorCode::kFileChanged, 200'000));
  EXPECT_EQ(error_of(transfers[2]), failure(ErrorCode::kFileChanged, 100'000));
  EXPECT_EQ(error_of(transfers[3]), failure(ErrorCode::kWriteFailed, 77));
  if (GetParam() != "gpudirect") {
    EXPECT_EQ(error_of(transfers[4]), failure(ErrorCode::kUsage));
  }
  EXPECT_EQ(error_of(transfers[5]), test::Caught{});
  EXPECT_EQ(whole, content);
  // The queue is as good as before, and the error of a transfer that is started again is gone.
  transfers[1].offset = 1'000;
  queue->start(transfers[1]);
  EXPECT_EQ(&queue->wait(), &transfers[1]);
  EXPECT_EQ(error_of(transfers[1]), test::Caught{});
  EXPECT_EQ(behind, part(content, 1'000, 5'000));
}

TEST_P(QueueTest, PollingFindsEveryTransferAndNeverWaits) {
  const Bytes content = random_bytes(1'000'003, 16);
  const auto file = open(content);
  const auto queue = file->make_queue(8);
  EXPECT_EQ(queue->poll(), nullptr) << "of an empty queue";
  Bytes whole(content.size());
  std::vector<Transfer> transfers;
  for (const auto& [at, count] : pieces_of(content.size())) {
    transfers.push_back({Transfer::Kind::kRead, at, std::span(whole).subspan(at, count), nullptr, {}});
  }
  std::set<Transfer*> through;
  for (auto next = transfers.begin(); next != transfers.end() || queue->in_flight() > 0;) {
    if (next != transfers.end() && queue->in_flight() < queue->depth()) queue->start(*next++);
    while (Transfer* const done = queue->poll()) EXPECT_TRUE(through.insert(done).second);
  }
  EXPECT_EQ(through.size(), transfers.size());
  expect_no_errors(transfers);
  EXPECT_EQ(whole, content);
}

TEST_P(QueueTest, DestroyedItWaitsForWhatIsInFlight) {
  Bytes content = random_bytes(1'000'003, 15);
  for (int round = 0; round < 10; ++round) {
    const auto [name, file] = create_named();
    std::vector<Transfer> transfers;
    for (std::size_t at = 0; at < content.size(); at += 100'001) {
      const std::size_t count = std::min<std::size_t>(100'001, content.size() - at);
      transfers.push_back({Transfer::Kind::kWrite, at, std::span(content).subspan(at, count), nullptr, {}});
    }
    {
      const auto queue = file->make_queue(16);
      for (Transfer& transfer : transfers) {
        if (queue->in_flight() == queue->depth()) queue->wait();
        queue->start(transfer);
      }
    }
    expect_no_errors(transfers);
    ASSERT_EQ(read(*file, 0, content.size()), content);
  }
}

// The kernel grants a lease for reading only while no process has the file open for writing.
bool is_open_for_writing(const std::string& name) {
  const int descriptor = ::open(name.c_str(), O_RDONLY | O_CLOEXEC);
  const int error = ::fcntl(descriptor, F_SETLEASE, F_RDLCK) == 0 ? 0 : errno;
  ::close(descriptor);
  if (error != 0 && error != EAGAIN) throw std::system_error(error, std::generic_category(), "F_SETLEASE");
  return error == EAGAIN;
}

std::string why_no_leases(const std::string& name) {
  try {
    return is_open_for_writing(name) ? "this file system grants no leases" : "";
  } catch (const std::system_error& error) {
    return error.what();
  }
}

// Removing a file or unmounting its file system does not wait after this.
TEST_P(TransferTest, AClosedFileIsHeldByNobody) {
  constexpr int kFiles = 10;
  int held = 0;
  for (int i = 0; i < kFiles; ++i) {
    auto [name, file] = create_named();
    Bytes content = random_bytes(300'000, 4);
    std::ofstream(name + ".closed") << "never open here";
    if (const std::string reason = why_no_leases(name + ".closed"); !reason.empty()) GTEST_SKIP() << reason;
    {
      const auto queue = file->make_queue(2);
      Transfer transfer;
      transfer.kind = Transfer::Kind::kWrite;
      transfer.memory = MutableBuffer{std::span(content)};
      queue->start(transfer);
      ASSERT_EQ(queue->wait().error, nullptr);
    }
    file->write_at(content.size(), std::span(content));
    ASSERT_TRUE(is_open_for_writing(name));
    file.reset();
    held += is_open_for_writing(name) ? 1 : 0;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (std::chrono::steady_clock::now() < end && is_open_for_writing(name)) std::this_thread::yield();
    ASSERT_FALSE(is_open_for_writing(name));
  }
  // A thread of the kernel may let go of a file some time after it has completed a transfer; the polling one does.
  const int allowed = GetParam() == "uring-sqpoll" ? kFiles : GetParam().starts_with("uring") ? 2 : 0;
  EXPECT_LE(held, allowed);
}

}  // namespace
}  // namespace tzmark
