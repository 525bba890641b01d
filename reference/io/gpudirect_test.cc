// Tests of the path gpudirect over stand-ins of its libraries: what it moves, and what it says when they fail.
#include <gmock/gmock.h>

#include <thread>

#include "testing/caught.h"
#include "testing/gpu/fake_libraries.h"
#include "tzmark/error.h"

namespace tzmark::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::size_t> kOddSizes = {1,     511,   512,    513,           4'095,        4'096,
                                            4'097, 8'192, 12'289, (1 << 20) - 1, (1 << 20) + 1};

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "no error";
}

TEST_F(GpuDirectTest, SaysWhichPathMovesTheBytes) {
  EXPECT_EQ(create()->io_path(), "gpudirect");
  EXPECT_EQ(create()->queue_depth_default(), 8U);
  EXPECT_FALSE(create()->is_asynchronous());
}

TEST_F(GpuDirectTest, TheFakeHidesDeviceMemoryFromTheCpu) {
  const DeviceMemory memory(1);
  const auto file = open_file(new_name(), OpenMode::kCreate, "pwrite");
  EXPECT_EQ(message_of([&] {
              file->write_at(0, {memory.buffer().data, 1, MemoryKind::kHost});
            }),
            "pwrite: Bad address");
}

TEST_F(GpuDirectTest, WritesWhatOtherPathsRead) {
  for (const std::size_t size : kOddSizes) {
    for (const std::uint64_t offset : {0, 1, 511, 4'095, 4'096, 4'097, 10'000}) {
      const Bytes content = random_bytes(size, size + offset);
      const std::string name = new_name();
      const auto file = open_file(name, OpenMode::kCreate, "gpudirect");
      write_by_device(*file, offset, content);
      EXPECT_EQ(file->size(), offset + size);
      file->sync();
      Bytes expected(offset);
      expected.insert(expected.end(), content.begin(), content.end());
      ASSERT_EQ(read_whole(name), expected) << size << " at " << offset;
    }
  }
}

TEST_F(GpuDirectTest, ReadsWhatOtherPathsWrote) {
  const Bytes content = random_bytes(2'100'001, 1);
  const std::string name = new_name();
  write_whole(name, content);
  const auto file = open_file(name, OpenMode::kRead, "gpudirect");
  EXPECT_EQ(file->size(), content.size());
  for (const std::size_t size : kOddSizes) {
    for (const std::uint64_t offset : {0, 1, 511, 4'095, 4'096, 4'097, 10'000}) {
      const auto expected = std::span(content).subspan(offset, size);
      ASSERT_THAT(read_by_device(*file, offset, size), ::testing::ElementsAreArray(expected))
          << size << " at " << offset;
    }
  }
  EXPECT_EQ(read_by_device(*file, content.size() - 1, 1), Bytes(1, content.back()));
}

TEST_F(GpuDirectTest, MovesToAnyPlaceInDeviceMemory) {
  const Bytes content = random_bytes(10'000, 2);
  const auto file = create();
  const DeviceMemory from = on_device(content);
  file->write_at(0, from.buffer().sub(7, 9'001));
  DeviceMemory to = on_device(Bytes(10'000));
  file->read_at(1, to.buffer().sub(5'001, 4'000));
  Bytes expected(10'000);
  std::copy_n(content.begin() + 8, 4'000, expected.begin() + 5'001);
  EXPECT_EQ(on_host(to), expected);
}

TEST_F(GpuDirectTest, HostAndDeviceSeeOneContent) {
  const auto file = create();
  const Bytes first = random_bytes(20'000, 3), second = random_bytes(9'000, 4);
  for (const MemoryKind kind : {MemoryKind::kHost, MemoryKind::kPinned}) {
    Bytes host = first;
    file->write_at(0, {host.data(), host.size(), kind});
    EXPECT_EQ(read_by_device(*file, 0, first.size()), first);
    write_by_device(*file, 5'000, second);
    Bytes expected = first;
    std::ranges::copy(second, expected.begin() + 5'000);
    file->read_at(0, {host.data(), host.size(), kind});
    EXPECT_EQ(host, expected);
  }
}

TEST_F(GpuDirectTest, EmptyTransfersDoNothing) {
  const auto file = create();
  const DeviceMemory memory(1);
  const auto calls = orders().calls.load();
  file->read_at(0, memory.buffer().sub(0, 0));
  file->write_at(100, memory.buffer().sub(0, 0));
  EXPECT_EQ(orders().calls, calls);
  EXPECT_EQ(file->size(), 0U);
}

TEST_F(GpuDirectTest, ReadPastTheEnd) {
  const auto file = create();
  write_by_device(*file, 0, random_bytes(10, 5));
  EXPECT_EQ(caught([&] { read_by_device(*file, 0, 11); }), failure(ErrorCode::kFileChanged, 10));
  EXPECT_EQ(caught([&] { read_by_device(*file, 5, 1'000'000); }), failure(ErrorCode::kFileChanged, 10));
  EXPECT_EQ(caught([&] { read_by_device(*file, 50, 1); }), failure(ErrorCode::kFileChanged, 50));
}

TEST_F(GpuDirectTest, NeighbouringPiecesOfSeveralThreads) {
  // Each block of 4096 bytes is shared by pieces of several threads.
  constexpr std::size_t kPieceBytes = 6'001, kPieces = 64, kThreads = 8;
  const Bytes content = random_bytes(kPieces * kPieceBytes, 6);
  const DeviceMemory memory = on_device(content);
  const auto file = create();
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        for (std::size_t piece = thread; piece < kPieces; piece += kThreads) {
          file->write_at(piece * kPieceBytes, memory.buffer().sub(piece * kPieceBytes, kPieceBytes));
        }
      });
    }
  }
  EXPECT_EQ(file->size(), content.size());
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        const Bytes bytes = read_by_device(*file, thread * kPieceBytes, 8 * kPieceBytes);
        if (!std::ranges::equal(bytes, std::span(content).subspan(thread * kPieceBytes, 8 * kPieceBytes))) ++wrong;
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

TEST_F(GpuDirectTest, NewThreadsNeedNoContextOfTheirOwn) {
  const DeviceMemory memory = on_device(random_bytes(8'192, 13));
  std::unique_ptr<File> file;
  std::unique_ptr<TransferQueue> queue;
  const std::array buffers = {memory.buffer()};
  const std::vector<std::function<void()>> steps = {
      [&] { file = create(); },
      [&] { file->write_at(0, memory.buffer()); },
      [&] { file->write_at(1, memory.buffer().sub(1, 10)); },
      [&] { file->read_at(0, memory.buffer()); },
      [&] { queue = file->make_queue(1); },
      [&] { queue->register_memory(buffers); },
      [&] { EXPECT_EQ(on_host(memory), random_bytes(8'192, 13)); },
      [&] { queue.reset(); },
      [&] { DeviceMemory(10); },
  };
  for (std::size_t step = 0; step < steps.size(); ++step) {
    test::Caught result;
    std::jthread([&] { result = caught(steps[step]); }).join();
    EXPECT_EQ(result, Caught()) << "step " << step;
  }
  EXPECT_EQ(orders().memory_registered, 0);
}

TEST_F(GpuDirectTest, ReservesRoom) {
  const std::string name = new_name();
  const auto file = open_file(name, OpenMode::kCreate, "gpudirect");
  const Bytes content = random_bytes(100'000, 7);
  file->reserve(content.size());
  write_by_device(*file, 0, content);
  EXPECT_EQ(file->size(), content.size());
  EXPECT_EQ(read_whole(name), content);
  EXPECT_EQ(caught([&] {
              const FileSizeLimit limit(200'000);
              file->reserve(1 << 20);
            }),
            failure(ErrorCode::kWriteFailed, 0));
}

TEST_F(GpuDirectTest, ShortAndInterruptedTransfersGiveWholeResults) {
  const Bytes content = random_bytes(20'000, 8);
  for (const std::size_t bytes_max : {1'000, 4'096, 7'777}) {
    const auto file = create();
    orders().bytes_max = bytes_max;
    orders().interruptions = 3;
    write_by_device(*file, 0, content);
    EXPECT_EQ(orders().interruptions, 0);
    orders().interruptions = 3;
    EXPECT_EQ(read_by_device(*file, 0, content.size()), content);
    EXPECT_EQ(orders().interruptions, 0);
  }
}

// Registers, writes and reads, by a queue, with three calls of libcufile in each direction. The first byte of each is
// a multiple of 8192.
void do_everything(const std::string& name, DeviceMemory& memory) {
  const auto file = open_file(name, OpenMode::kCreate, "gpudirect");
  const auto queue = file->make_queue(4);
  const std::array buffers = {memory.buffer()};
  queue->register_memory(buffers);
  for (const auto kind : {Transfer::Kind::kWrite, Transfer::Kind::kRead}) {
    for (std::uint64_t piece = 0; piece < 3; ++piece) {
      Transfer transfer{kind, piece * 8'192, memory.buffer().sub(piece * 8'192, 8'192), nullptr, nullptr};
      queue->start(transfer);
      EXPECT_EQ(&queue->wait(), &transfer);
      if (transfer.error) std::rethrow_exception(transfer.error);
    }
  }
}

TEST_F(GpuDirectTest, FaultAtEveryCallIsOneError) {
  DeviceMemory memory = on_device(random_bytes(3 * 8'192, 9));
  do_everything(new_name(), memory);
  const std::int64_t calls = orders().calls;
  ASSERT_EQ(calls, 2 + 6);
  for (const int error : {5012, 5030, EIO, ENOSPC}) {
    for (std::int64_t call = 0; call < calls; ++call) {
      orders().calls = 0;
      orders().fail_call = call;
      // What registers something knows no errno.
      orders().fail_with = call < 2 ? 5030 : error;
      const std::string name = new_name();
      const Caught result = caught([&] { do_everything(name, memory); });
      if (call == 0) {
        EXPECT_EQ(result, failure(ErrorCode::kUnavailable));
        EXPECT_FALSE(std::filesystem::exists(name));
      } else if (call == 1) {
        EXPECT_EQ(result, Caught()) << "memory need not be registered";
      } else {
        const auto piece = static_cast<std::uint64_t>(call - 2) % 3;
        EXPECT_EQ(result, failure(call < 5 ? ErrorCode::kWriteFailed : ErrorCode::kReadFailed, piece * 8'192));
      }
      EXPECT_EQ(orders().files_registered, 0);
      EXPECT_EQ(orders().memory_registered, 0);
    }
  }
}

TEST_F(GpuDirectTest, ErrorsHaveTheirNames) {
  const auto file = create();
  const auto message = [&](int error) {
    orders().calls = 0;
    orders().fail_call = 0;
    orders().fail_with = error;
    return message_of([&] { write_by_device(*file, 0, Bytes(4'096)); });
  };
  EXPECT_EQ(message(EIO), "cuFileWrite: Input/output error");
  EXPECT_EQ(message(ENOSPC), "cuFileWrite: No space left on device");
  EXPECT_EQ(message(0), "cuFileWrite: unknown error");
  EXPECT_EQ(message(5001), "cuFileWrite: CU_FILE_DRIVER_NOT_INITIALIZED (5001)");
  EXPECT_EQ(message(5049), "cuFileWrite: CU_FILE_BATCH_NOCOMPAT_ERROR (5049)");
  EXPECT_EQ(message(5021), "cuFileWrite: cuFile error 5021");
  orders().fails_by_errno = true;
  EXPECT_EQ(message(5019), "cuFileWrite: CU_FILE_INVALID_FILE_OPEN_FLAG (5019)");
  orders().fail_with = 5008;
  orders().calls = 0;
  EXPECT_THAT(message_of([&] { create(); }),
              HasSubstr("file-1: cuFileHandleRegister: CU_FILE_IO_NOT_SUPPORTED (5008)"));
}

TEST_F(GpuDirectTest, AtomicFilesLeaveNothingBehindAFault) {
  const Bytes content = random_bytes(8'192, 10);
  orders().fail_call = 1;  // the first write
  orders().fail_with = ENOSPC;
  EXPECT_EQ(caught([&] {
              AtomicFile file(directory_ / "final", "gpudirect");
              write_by_device(file.file(), 0, content);
              file.commit();
            }),
            failure(ErrorCode::kWriteFailed, 0));
  EXPECT_THAT(directory_.entries(), IsEmpty());
  AtomicFile file(directory_ / "final", "gpudirect");
  write_by_device(file.file(), 0, content);
  file.commit();
  EXPECT_EQ(read_whole(directory_ / "final"), content);
}

TEST_F(GpuDirectTest, ResultsThatCannotBeAreErrors) {
  const auto file = create();
  orders().lie = 5'000;
  EXPECT_EQ(caught([&] { write_by_device(*file, 0, Bytes(4'096)); }), failure(ErrorCode::kWriteFailed, 0));
  EXPECT_EQ(caught([&] { read_by_device(*file, 0, 4'096); }), failure(ErrorCode::kReadFailed, 0));
  orders().lie = -12;
  EXPECT_EQ(message_of([&] { read_by_device(*file, 0, 1); }), "cuFileRead: cuFile error 12");
}

TEST_F(GpuDirectTest, WritingNothingIsAnErrorAndNoLoop) {
  const auto file = create();
  orders().bytes_max = 0;
  EXPECT_EQ(caught([&] { write_by_device(*file, 0, Bytes(4'096)); }), failure(ErrorCode::kWriteFailed, 0));
}

TEST_F(GpuDirectTest, MemoryThatIsNotOfTheDeviceIsAnError) {
  const auto file = create();
  write_by_device(*file, 0, Bytes(8'192));
  Bytes host(4'096);
  const MutableBuffer wrong(host.data(), host.size(), MemoryKind::kDevice);
  EXPECT_EQ(caught([&] { file->read_at(0, wrong); }), failure(ErrorCode::kReadFailed, 0));
  EXPECT_EQ(caught([&] { file->write_at(0, wrong); }), failure(ErrorCode::kWriteFailed, 0));
  // By the copy of an end, too.
  EXPECT_EQ(caught([&] { file->write_at(1, wrong.sub(0, 10)); }), failure(ErrorCode::kWriteFailed, 1));
  EXPECT_EQ(message_of([&] { file->read_at(0, wrong); }), "cuFileRead: Bad address");
}

TEST_F(GpuDirectTest, RegisteredMemoryIsUsedByItsBase) {
  const auto file = create();
  const DeviceMemory memory = on_device(random_bytes(64 << 10, 11));
  // Not where the allocation begins.
  const MutableBuffer part = memory.buffer().sub(8'192, 32 << 10);
  const auto queue = file->make_queue(2);
  const auto other = file->make_queue(2);
  const std::array buffers = {part, MutableBuffer(), MutableBuffer(nullptr, 10, MemoryKind::kHost)};
  queue->register_memory(buffers);
  other->register_memory(buffers);
  EXPECT_EQ(orders().memory_registered, 1);
  file->write_at(0, part.sub(4'096, 8'192));
  file->read_at(0, part.sub(4'096, 8'192));
  EXPECT_EQ(orders().moves_from_registered, 2);
  file->read_at(0, memory.buffer().sub(0, 4'096));
  EXPECT_EQ(orders().moves_from_registered, 2);
}

TEST_F(GpuDirectTest, MemoryStaysRegisteredAsLongAsAnyQueue) {
  const auto file = create();
  const DeviceMemory memory(8'192);
  const std::array buffers = {memory.buffer()};
  auto queue = file->make_queue(2), other = file->make_queue(2);
  queue->register_memory(buffers);
  other->register_memory(buffers);
  queue.reset();
  EXPECT_EQ(orders().memory_registered, 1);
  other.reset();
  EXPECT_EQ(orders().memory_registered, 0);
}

TEST_F(GpuDirectTest, DeviceMemoryHoldsWhatIsCopied) {
  DeviceMemory memory = on_device(random_bytes(100, 12));
  memory.copy_from_host(10, Bytes(5));
  Bytes expected = random_bytes(100, 12);
  std::fill_n(expected.begin() + 10, 5, std::byte{0});
  EXPECT_EQ(on_host(memory), expected);
  Bytes part(3);
  memory.copy_to_host(97, part);
  EXPECT_THAT(part, ::testing::ElementsAreArray(std::span(expected).last(3)));
  const DeviceMemory moved = std::move(memory);
  EXPECT_EQ(on_host(moved), expected);
  EXPECT_EQ(moved.buffer().kind, MemoryKind::kDevice);
  EXPECT_EQ(DeviceMemory(0).buffer().size, 0U);
}

TEST_F(GpuDirectTest, DeviceMemoryThatIsNotThere) {
  EXPECT_EQ(DeviceMemory::why_unavailable(), "");
  EXPECT_THAT(message_of([] { DeviceMemory(std::size_t{1} << 50); }), HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (2)"));
  EXPECT_EQ(caught([] { DeviceMemory(std::size_t{1} << 50); }), failure(ErrorCode::kResource));
}

TEST_F(GpuDirectTest, OpensNoFileThatIsNotThere) {
  EXPECT_EQ(caught([&] { open_file(directory_ / "none", OpenMode::kRead, "gpudirect"); }),
            failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(directory_.entries(), IsEmpty());
}

}  // namespace
}  // namespace tzmark::test
