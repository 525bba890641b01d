// Tests that hold for every I/O path and for the memory file, and of what happens when calls fail.
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <numeric>
#include <set>

#include "testing/caught.h"
#include "testing/faults/faulty_file.h"
#include "testing/files/memory_file.h"
#include "testing/files/path_test.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::on_four_threads;
using test::random_bytes;
using test::read;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class FileTest : public test::PathTest {};

// What only files with a name can do.
class NamedFileTest : public test::PathTest {};

INSTANTIATE_TEST_SUITE_P(EveryPath, FileTest, ::testing::ValuesIn(test::all_paths()), test::test_name);
INSTANTIATE_TEST_SUITE_P(EveryPath, NamedFileTest, ::testing::ValuesIn(test::disk_paths()), test::test_name);

TEST_P(FileTest, SaysWhichPathMovesTheBytes) {
  EXPECT_EQ(create()->io_path(), GetParam());
  const PathTraits traits = path_traits(GetParam());
  EXPECT_EQ(create()->is_asynchronous(), traits.is_asynchronous);
  EXPECT_EQ(create()->moves_device_memory(), traits.moves_device_memory);
  EXPECT_TRUE(traits.bypasses_cache || create()->transfer_align_bytes() == 1);
  EXPECT_EQ(open(Bytes(1))->io_path(), GetParam());
}

// The limit of the process stands for a file system that fails while a buffer is written back.
TEST_P(NamedFileTest, NoBytesAreForgottenAfterAFailure) {
  const auto file = create();
  const Bytes content = random_bytes(10'000, 5);
  file->write_at(0, std::span(content).first(8'192));
  file->sync();
  const auto succeeds = [&](auto&& action) {
    try {
      action();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  bool written = false, synced = false;
  {
    const test::FileSizeLimit limit(8'192);
    written = succeeds([&] { file->write_at(8'192, std::span(content).subspan(8'192)); });
    synced = succeeds([&] { file->sync(); });
  }
  ASSERT_FALSE(written && synced);
  if (!written) file->write_at(8'192, std::span(content).subspan(8'192));
  file->sync();
  EXPECT_EQ(read(*file, 0, content.size()), content);
}

TEST_P(FileTest, ReadsWhatIsThere) {
  const Bytes content = random_bytes(300'000, 1);
  const auto file = open(content);
  EXPECT_EQ(file->size(), content.size());
  EXPECT_EQ(read(*file, 0, content.size()), content);
  EXPECT_EQ(read(*file, content.size() - 1, 1), Bytes(1, content.back()));
  EXPECT_EQ(read(*file, 0, 1), Bytes(1, content.front()));
}

TEST_P(FileTest, WritesAndReadsFromSeveralThreads) {
  constexpr std::size_t kPieceBytes = 7'001;
  const Bytes content = random_bytes(40 * kPieceBytes, 2);
  const auto file = create();
  on_four_threads([&](int thread) {
    std::vector<std::size_t> pieces(10);
    std::iota(pieces.begin(), pieces.end(), static_cast<std::size_t>(thread) * 10);
    std::mt19937_64 random(static_cast<std::uint64_t>(thread));
    std::ranges::shuffle(pieces, random);
    for (const std::size_t piece : pieces) {
      file->write_at(piece * kPieceBytes, std::span(content).subspan(piece * kPieceBytes, kPieceBytes));
    }
  });
  EXPECT_EQ(file->size(), content.size());
  std::atomic<int> wrong = 0;
  on_four_threads([&](int thread) {
    std::mt19937_64 random(100 + static_cast<std::uint64_t>(thread));
    // Many short reads, so that two threads meet between the steps of one.
    for (int round = 0; round < 3'000; ++round) {
      const std::size_t offset = random() % content.size();
      const std::size_t count = random() % std::min<std::size_t>(200, content.size() - offset);
      const auto expected = std::span(content).subspan(offset, count);
      if (!std::ranges::equal(read(*file, offset, count), expected)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

TEST_P(NamedFileTest, ReadsBesideWrites) {
  const auto file = create();
  std::atomic<int> wrong = 0;
  on_four_threads([&](int thread) {
    for (std::uint64_t round = 0; round < 50; ++round) {
      const Bytes piece = random_bytes(3'000, round * 4 + static_cast<std::uint64_t>(thread));
      const std::uint64_t offset = (round * 4 + static_cast<std::uint64_t>(thread)) * piece.size();
      file->write_at(offset, std::span(piece));
      if (read(*file, offset, piece.size()) != piece) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(file->size(), 50U * 4 * 3'000);
}

TEST_P(FileTest, SizeFollowsTheLastByte) {
  const auto file = create();
  EXPECT_EQ(file->size(), 0U);
  const Bytes ten = random_bytes(10, 3);
  file->write_at(100, std::span(ten));
  EXPECT_EQ(file->size(), 110U);
  file->write_at(0, std::span(ten));
  EXPECT_EQ(file->size(), 110U);
  file->sync();
  EXPECT_EQ(file->size(), 110U);
  // What was not written is zeros.
  EXPECT_EQ(read(*file, 10, 90), Bytes(90));
  EXPECT_EQ(read(*file, 100, 10), ten);
}

TEST_P(FileTest, OverwritesInPlace) {
  const auto file = create();
  Bytes content = random_bytes(1000, 4);
  file->write_at(0, std::span(content));
  EXPECT_EQ(read(*file, 0, 1000), content);
  std::fill_n(content.begin() + 500, 10, std::byte{0});
  file->write_at(500, std::span(content).subspan(500, 10));
  EXPECT_EQ(read(*file, 0, 1000), content);
}

TEST_P(FileTest, EmptyTransfersDoNothing) {
  const auto file = create();
  file->read_at(0, {});
  file->read_at(1000, {});
  file->write_at(1000, {});
  EXPECT_EQ(file->size(), 0U);
}

TEST_P(FileTest, ReadPastTheEnd) {
  const auto file = open(random_bytes(10, 5));
  EXPECT_EQ(caught([&] { read(*file, 0, 11); }), failure(ErrorCode::kFileChanged, 10));
  EXPECT_EQ(caught([&] { read(*file, 5, 1'000'000); }), failure(ErrorCode::kFileChanged, 10));
  EXPECT_EQ(caught([&] { read(*file, 10, 1); }), failure(ErrorCode::kFileChanged, 10));
  EXPECT_EQ(caught([&] { read(*file, 50, 1); }), failure(ErrorCode::kFileChanged, 50));
  EXPECT_EQ(caught([&] { read(*open({}), 0, 1); }), failure(ErrorCode::kFileChanged, 0));
  // The file is as good as before.
  EXPECT_EQ(read(*file, 0, 10), random_bytes(10, 5));
}

TEST_P(FileTest, RefusesDeviceMemory) {
  if (GetParam() == "gpudirect") GTEST_SKIP() << "device memory is what it is for";
  const auto file = create();
  Bytes bytes(10);
  file->write_at(0, std::span(bytes));
  EXPECT_EQ(caught([&] {
              file->read_at(0, {bytes.data(), bytes.size(), MemoryKind::kDevice});
            }),
            failure(ErrorCode::kUsage));
  EXPECT_EQ(caught([&] {
              file->write_at(10, {bytes.data(), bytes.size(), MemoryKind::kDevice});
            }),
            failure(ErrorCode::kUsage));
  EXPECT_EQ(file->size(), 10U);
}

TEST_P(FileTest, TakesPinnedMemory) {
  const auto file = create();
  Bytes written = random_bytes(10, 6), bytes(10);
  file->write_at(0, {written.data(), written.size(), MemoryKind::kPinned});
  file->read_at(0, {bytes.data(), bytes.size(), MemoryKind::kPinned});
  EXPECT_EQ(bytes, written);
}

TEST_P(FileTest, ShortTransfersGiveWholeResults) {
  const auto inner = create();
  const Bytes content = random_bytes(2000, 7);
  for (const std::uint64_t every : {1, 2, 3}) {
    FaultyFile file(*inner, FaultyFile::Fault::kShort, every, true);
    file.write_at(every * 10, std::span(content));
    EXPECT_EQ(read(file, every * 10, content.size()), content);
    EXPECT_EQ(read(*inner, every * 10, content.size()), content);
    EXPECT_EQ(file.size(), inner->size());
    EXPECT_EQ(file.io_path(), GetParam());
  }
}

TEST_P(FileTest, FaultAtEveryCallIsOneError) {
  // Calls that move one byte each, so that there is a call for every byte.
  constexpr std::uint64_t kOffset = 5, kBytes = 20;
  const Bytes content = random_bytes(kBytes, 8);
  using CallFault = FaultyFile::Fault;
  for (std::uint64_t call = 0; call < kBytes; ++call) {
    for (const CallFault fault : {CallFault::kError, CallFault::kNoSpace}) {
      const auto inner = create();
      FaultyFile file(*inner, fault, call, false, 1);
      EXPECT_EQ(caught([&] { file.write_at(kOffset, std::span(content)); }),
                failure(ErrorCode::kWriteFailed, kOffset + call));
      EXPECT_EQ(file.calls(), call + 1);
      // What was written before the fault is there, and the next try is through.
      EXPECT_EQ(inner->size(), call == 0 ? 0 : kOffset + call);
      file.write_at(kOffset, std::span(content));
      EXPECT_EQ(read(*inner, kOffset, kBytes), content);
    }
    for (const auto& [fault, code] :
         {std::pair{CallFault::kError, ErrorCode::kReadFailed}, std::pair{CallFault::kEnd, ErrorCode::kFileChanged}}) {
      const auto inner = create();
      inner->write_at(kOffset, std::span(content));
      FaultyFile file(*inner, fault, call, false, 1);
      EXPECT_EQ(caught([&] { read(file, kOffset, kBytes); }), failure(code, kOffset + call));
      EXPECT_EQ(file.calls(), call + 1);
      EXPECT_EQ(read(file, kOffset, kBytes), content);
    }
  }
}

TEST_P(FileTest, FaultsSayWhatTheSystemWouldSay) {
  const auto inner = create();
  const Bytes one(1);
  const auto message = [&](FaultyFile::Fault fault) {
    FaultyFile file(*inner, fault, 0);
    try {
      file.write_at(0, std::span(one));
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_THAT(message(FaultyFile::Fault::kError), HasSubstr("Input/output error"));
  EXPECT_THAT(message(FaultyFile::Fault::kNoSpace), HasSubstr("No space left on device"));
}

TEST_P(FileTest, FaultsOfSync) {
  const auto inner = create();
  for (const FaultyFile::Fault fault : {FaultyFile::Fault::kError, FaultyFile::Fault::kNoSpace}) {
    FaultyFile file(*inner, fault, 1);
    file.sync();
    EXPECT_EQ(caught([&] { file.sync(); }), failure(ErrorCode::kSyncFailed));
    file.sync();
    EXPECT_EQ(file.calls(), 3U);
  }
}

TEST(FaultyFile, CountsAllCallsTogether) {
  MemoryFile inner(Bytes(10));
  FaultyFile file(inner, FaultyFile::Fault::kError, 3, true);
  const Bytes one(1);
  std::vector<int> failed;
  for (int call = 0; call < 10; ++call) {
    const auto action = [&] {
      if (call % 3 == 0) {
        read(file, 0, 1);
      } else if (call % 3 == 1) {
        file.write_at(0, std::span(one));
      } else {
        file.sync();
      }
    };
    if (caught(action).code) failed.push_back(call);
  }
  EXPECT_EQ(failed, (std::vector{0, 3, 6, 9}));
  EXPECT_EQ(file.calls(), 10U);
}

TEST(MemoryFile, ShowsItsContent) {
  MemoryFile file(random_bytes(10, 9));
  const Bytes two = random_bytes(2, 10);
  file.write_at(10, std::span(two));
  Bytes expected = random_bytes(10, 9);
  expected.insert(expected.end(), two.begin(), two.end());
  EXPECT_EQ(file.content(), expected);
}

TEST_P(NamedFileTest, SyncedContentIsInTheFile) {
  const std::string name = new_name();
  const Bytes content = random_bytes(100'000, 11);
  const auto file = open_file(name, OpenMode::kCreate, GetParam());
  file->write_at(0, std::span(content));
  file->sync();
  EXPECT_EQ(test::read_whole(name), content);
}

TEST_P(NamedFileTest, CreateRefusesWhatExists) {
  const std::string name = new_name();
  const Bytes content = random_bytes(10, 12);
  test::write_whole(name, content);
  EXPECT_EQ(caught([&] { open_file(name, OpenMode::kCreate, GetParam()); }), failure(ErrorCode::kOpenFailed));
  EXPECT_EQ(test::read_whole(name), content);
  EXPECT_EQ(caught([&] { open_file(directory_.name(), OpenMode::kCreate, GetParam()); }),
            failure(ErrorCode::kOpenFailed));
}

TEST_P(NamedFileTest, CreateNeedsADirectory) {
  EXPECT_EQ(caught([&] { open_file(directory_ / "none/file", OpenMode::kCreate, GetParam()); }),
            failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(directory_.entries(), IsEmpty());
}

TEST_P(NamedFileTest, OpensNeitherNothingNorDirectories) {
  for (const std::string& name : {directory_ / "none", directory_.name(), std::string()}) {
    EXPECT_EQ(caught([&] { open_file(name, OpenMode::kRead, GetParam()); }), failure(ErrorCode::kOpenFailed)) << name;
  }
}

TEST_P(NamedFileTest, SaysWhyItCannotOpen) {
  try {
    open_file(directory_ / "none", OpenMode::kRead, GetParam());
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot open: No such file or directory");
  }
}

TEST_P(NamedFileTest, OpensNothingThatItMayNotRead) {
  const std::string name = new_name();
  test::write_whole(name, Bytes(10));
  ASSERT_EQ(::chmod(name.c_str(), 0), 0);
  ASSERT_EQ(::chmod(directory_.name().c_str(), 0755), 0);
  // Nothing is forbidden to root, so that it has to be somebody else meanwhile.
  const uid_t user = ::geteuid();
  constexpr uid_t kNobody = 65534;
  if (user == 0) {
    ASSERT_EQ(::seteuid(kNobody), 0);
  }
  const auto result = caught([&] { open_file(name, OpenMode::kRead, GetParam()); });
  ASSERT_EQ(::seteuid(user), 0);
  EXPECT_EQ(result, failure(ErrorCode::kOpenFailed));
}

TEST_P(NamedFileTest, OpensNothingThatCannotSeek) {
  const std::string name = new_name();
  ASSERT_EQ(::mkfifo(name.c_str(), 0666), 0);
  // Its other end is not open, and is not waited for.
  for (const OpenMode mode : {OpenMode::kRead, OpenMode::kModify}) {
    for (const std::string& pipe_or_device : {name, std::string("/dev/zero"), std::string("/dev/null")}) {
      EXPECT_EQ(caught([&] { open_file(pipe_or_device, mode, GetParam()); }), failure(ErrorCode::kOpenFailed));
    }
  }
}

TEST_P(NamedFileTest, OpenedForReadingItIsNotWritten) {
  const auto file = open(Bytes(10));
  const Bytes one(1);
  EXPECT_EQ(caught([&] { file->write_at(3, std::span(one)); }), failure(ErrorCode::kWriteFailed, 3));
  EXPECT_EQ(file->size(), 10U);
  EXPECT_EQ(read(*file, 0, 10), Bytes(10));
}

TEST_P(NamedFileTest, BecomingShorterIsNoticed) {
  const std::string name = new_name();
  test::write_whole(name, Bytes(100'000));
  const auto file = open_file(name, OpenMode::kRead, GetParam());
  std::filesystem::resize_file(name, 60'000);
  EXPECT_EQ(caught([&] { read(*file, 50'000, 50'000); }), failure(ErrorCode::kFileChanged, 60'000));
  EXPECT_EQ(caught([&] { read(*file, 70'000, 1); }), failure(ErrorCode::kFileChanged, 70'000));
  EXPECT_EQ(read(*file, 0, 60'000), Bytes(60'000));
}

TEST_P(NamedFileTest, AFullDiskIsNoticedBeforeSyncReturns) {
  // The fewer bytes fit into the buffer of a path that has one.
  for (const std::size_t bytes : {2'000, 300'000}) {
    const auto file = create();
    const Bytes content = random_bytes(bytes, 13);
    test::Caught result;
    {
      const test::FileSizeLimit limit(bytes / 2);
      result = caught([&] {
        file->write_at(0, std::span(content));
        file->sync();
      });
    }
    EXPECT_EQ(result.code, ErrorCode::kWriteFailed) << bytes;
    // There is room again, the same file takes it, and nothing is left of the error.
    file->write_at(0, std::span(content));
    file->sync();
    EXPECT_EQ(read(*file, 0, bytes), content) << bytes;
    EXPECT_EQ(caught([&] { read(*file, bytes, 1); }), failure(ErrorCode::kFileChanged, bytes));
  }
}

TEST(IoPaths, HaveDifferentNamesAndSaySomething) {
  std::set<std::string_view> names;
  ASSERT_FALSE(io_paths().empty());
  for (const IoPath& path : io_paths()) {
    EXPECT_TRUE(names.insert(path.name).second) << path.name;
    EXPECT_THAT(path.summary, Not(IsEmpty())) << path.name;
  }
  EXPECT_FALSE(names.contains("auto"));
  EXPECT_TRUE(names.contains("pwrite"));
  EXPECT_TRUE(names.contains("buffered"));
}

TEST(OpenFile, AutoIsTheFirstPathThatThisMachineHas) {
  const auto first =
      std::ranges::find_if(io_paths(), [](const IoPath& path) { return path.why_unavailable().empty(); });
  ASSERT_NE(first, io_paths().end());
  const test::TestDirectory directory;
  EXPECT_EQ(open_file(directory / "file", OpenMode::kCreate, "auto")->io_path(), first->name);
  EXPECT_EQ(open_file(directory / "file", OpenMode::kRead)->io_path(), first->name);
}

TEST(OpenFile, UnknownPathsAreWrongUsage) {
  const test::TestDirectory directory;
  test::write_whole(directory / "file", Bytes(1));
  for (const char* path : {"", "Pwrite", "pwrite ", "memory", "uring,pwrite", "all"}) {
    EXPECT_EQ(caught([&] { open_file(directory / "file", OpenMode::kRead, path); }), failure(ErrorCode::kUsage))
        << path;
    EXPECT_EQ(caught([&] { open_file(directory / "new", OpenMode::kCreate, path); }), failure(ErrorCode::kUsage))
        << path;
  }
  EXPECT_EQ(directory.entries(), std::vector<std::string>{"file"});
  try {
    open_file(directory / "file", OpenMode::kRead, "floppy");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("'floppy'"));
    for (const IoPath& path : io_paths()) EXPECT_THAT(error.message(), HasSubstr(std::string(path.name)));
  }
}

}  // namespace
}  // namespace tzmark
