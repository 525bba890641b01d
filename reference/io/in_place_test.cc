// Files that are changed in place: the lock, sizes, room in the middle, and whose they are.
#include "io/in_place.h"

#include <gmock/gmock.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bytes/caught.h"
#include "io/test_room.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::random_bytes;
using test::read_whole;
using test::write_whole;
using ::testing::ElementsAre;

// Of every file system that is likely to be met.
constexpr std::size_t kBlockBytes = 4096;

class InPlaceFileTest : public ::testing::Test {
 protected:
  void SetUp() override { write_whole(name_, content_); }

  Bytes with_room(std::size_t offset, std::size_t bytes) const {
    Bytes expected = content_;
    expected.insert(expected.begin() + static_cast<std::ptrdiff_t>(offset), bytes, std::byte{0});
    return expected;
  }
  mode_t mode_of(const std::string& name) const {
    struct stat status {};
    EXPECT_EQ(::stat(name.c_str(), &status), 0);
    return status.st_mode & 07777;
  }

  const test::TestDirectory directory_;
  const std::string name_ = directory_ / "file";
  const Bytes content_ = random_bytes(5 * kBlockBytes + 100, 1);
};

TEST_F(InPlaceFileTest, IsLockedWhileTheObjectLives) {
  {
    const InPlaceFile first(name_);
    EXPECT_EQ(caught([&] { const InPlaceFile second(name_); }), failure(ErrorCode::kFileLocked));
    // By any name.
    std::filesystem::create_symlink("file", directory_ / "link");
    EXPECT_EQ(caught([&] { const InPlaceFile second(directory_ / "link"); }), failure(ErrorCode::kFileLocked));
    // Others may read and even write: the lock binds who asks for it.
    EXPECT_EQ(read_whole(name_), content_);
  }
  EXPECT_EQ(caught([&] { const InPlaceFile again(name_); }), test::Caught{});
}

TEST_F(InPlaceFileTest, TheLockMovesWithTheObject) {
  InPlaceFile first(name_);
  write_whole(directory_ / "other", content_);
  InPlaceFile other(directory_ / "other");
  first = std::move(other);
  EXPECT_EQ(caught([&] { const InPlaceFile second(directory_ / "other"); }), failure(ErrorCode::kFileLocked));
}

TEST_F(InPlaceFileTest, RespectsTheLocksOfOthers) {
  const int descriptor = ::open(name_.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::flock(descriptor, LOCK_SH), 0);
  EXPECT_EQ(caught([&] { const InPlaceFile file(name_); }), failure(ErrorCode::kFileLocked));
  ASSERT_EQ(::flock(descriptor, LOCK_UN), 0);
  EXPECT_EQ(caught([&] { const InPlaceFile file(name_); }), test::Caught{});
  ::close(descriptor);
}

TEST_F(InPlaceFileTest, NeedsAFileThatIsThere) {
  EXPECT_EQ(caught([&] { const InPlaceFile file(directory_ / "none"); }), failure(ErrorCode::kOpenFailed));
  EXPECT_EQ(caught([&] { const InPlaceFile file(directory_.name()); }), failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(directory_.entries(), ElementsAre("file"));
}

TEST_F(InPlaceFileTest, ChangesItsSize) {
  InPlaceFile file(name_);
  EXPECT_EQ(file.size(), content_.size());
  Bytes expected = content_;
  for (const std::size_t size : {content_.size() + 1000, std::size_t{10}, std::size_t{0}, std::size_t{5000}}) {
    file.resize(size);
    expected.resize(size);
    EXPECT_EQ(file.size(), size);
    EXPECT_EQ(read_whole(name_), expected);
  }
  const test::FileSizeLimit limit(6000);
  EXPECT_EQ(caught([&] { file.resize(6001); }), failure(ErrorCode::kWriteFailed, 6001));
  EXPECT_EQ(read_whole(name_), expected);
}

TEST_F(InPlaceFileTest, MakesRoomBetweenBlocks) {
  for (const std::size_t offset : {std::size_t{0}, kBlockBytes, 4 * kBlockBytes, 5 * kBlockBytes}) {
    for (const std::size_t bytes : {kBlockBytes, 3 * kBlockBytes}) {
      write_whole(name_, content_);
      InPlaceFile file(name_);
      if (!file.insert(offset, bytes)) {
        EXPECT_EQ(read_whole(name_), content_) << "it could not, and has changed nothing";
        GTEST_SKIP() << "this file system cannot insert ranges";
      }
      EXPECT_EQ(file.size(), content_.size() + bytes);
      EXPECT_EQ(read_whole(name_), with_room(offset, bytes)) << bytes << " bytes at " << offset;
    }
  }
}

TEST_F(InPlaceFileTest, MakesNoRoomInsideBlocks) {
  InPlaceFile file(name_);
  EXPECT_FALSE(file.insert(kBlockBytes + 256, kBlockBytes));
  EXPECT_FALSE(file.insert(kBlockBytes, 256));
  EXPECT_EQ(read_whole(name_), content_);
}

TEST_F(InPlaceFileTest, BehindTheEndThereIsRoom) {
  {
    InPlaceFile file(name_);
    EXPECT_TRUE(file.insert(content_.size(), 300));
    EXPECT_EQ(read_whole(name_), with_room(content_.size(), 300));
  }
  write_whole(name_, content_);
  InPlaceFile file(name_);
  EXPECT_TRUE(file.insert(content_.size() + 100, 300));
  EXPECT_EQ(read_whole(name_), with_room(content_.size(), 400));
}

TEST_F(InPlaceFileTest, NoRoomOnAFullDisk) {
  InPlaceFile file(name_);
  const test::FileSizeLimit limit(content_.size() + 10);
  EXPECT_EQ(caught([&] { file.insert(content_.size(), 300); }),
            failure(ErrorCode::kWriteFailed, content_.size() + 300));
  EXPECT_EQ(read_whole(name_), content_);
}

TEST_F(InPlaceFileTest, TakesThePermissionsOfAnother) {
  write_whole(directory_ / "other", content_);
  for (const mode_t mode : {0600, 0644, 0640, 0755}) {
    ASSERT_EQ(::chmod(name_.c_str(), mode), 0);
    const InPlaceFile other(directory_ / "other");
    EXPECT_TRUE(InPlaceFile(name_).give_attributes_to(other.get()));
    EXPECT_EQ(mode_of(directory_ / "other"), mode);
    EXPECT_TRUE(InPlaceFile(name_).give_attributes_to(other.get(), 0705));
    EXPECT_EQ(mode_of(directory_ / "other"), mode & 0705);
  }
}

TEST_F(InPlaceFileTest, TakesTheOwnerOfAnotherIfItMay) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  ASSERT_EQ(::chown(name_.c_str(), 12, 34), 0);
  ASSERT_EQ(::chmod(name_.c_str(), 02750), 0);
  write_whole(directory_ / "other", content_);
  EXPECT_TRUE(InPlaceFile(name_).give_attributes_to(InPlaceFile(directory_ / "other").get()));
  struct stat status {};
  ASSERT_EQ(::stat((directory_ / "other").c_str(), &status), 0);
  EXPECT_EQ(status.st_uid, 12U);
  EXPECT_EQ(status.st_gid, 34U);
  EXPECT_EQ(status.st_mode & 07777U, 02750U) << "a change of the owner clears bits, and comes first";
}

// In a user namespace that has no number for the owner: fchown fails with EINVAL there.
TEST_F(InPlaceFileTest, KeepsItsOwnerWhereTheOtherIsNotMapped) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may give files away";
  ASSERT_EQ(::chown(name_.c_str(), 12, 34), 0);
  ASSERT_EQ(::chmod(name_.c_str(), 06766), 0);
  write_whole(directory_ / "other", content_);
  const InPlaceFile locked(name_), other(directory_ / "other");
  constexpr int kNoNamespace = 77;
  const pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWUSER) != 0) ::_exit(kNoNamespace);
    std::ofstream("/proc/self/uid_map") << "0 0 1";
    std::ofstream("/proc/self/gid_map") << "0 0 1";
    ::_exit(caught([&] { ::_exit(locked.give_attributes_to(other.get()) ? 1 : 0); }) == test::Caught{} ? 2 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kNoNamespace) GTEST_SKIP() << "this machine gives no user namespace";
  EXPECT_EQ(WEXITSTATUS(status), 0);
  struct stat kept {};
  ASSERT_EQ(::stat((directory_ / "other").c_str(), &kept), 0);
  EXPECT_EQ(kept.st_uid, 0U);
  EXPECT_EQ(kept.st_gid, 0U);
  EXPECT_EQ(kept.st_mode & 07777U, 0766U) << "it is no program of root's";
}

TEST_F(InPlaceFileTest, AnotherGroupGetsNoMoreThanEverybody) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may act as another user";
  // Of a group that the caller is not in.
  ASSERT_EQ(::chown(name_.c_str(), 65534, 34), 0);
  ASSERT_EQ(::chmod(name_.c_str(), 0664), 0);
  write_whole(directory_ / "other", content_);
  ASSERT_EQ(::chown((directory_ / "other").c_str(), 65534, 65534), 0);
  const InPlaceFile locked(name_), other(directory_ / "other");
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(65534) != 0 || ::setuid(65534) != 0) ::_exit(2);
    ::_exit(locked.give_attributes_to(other.get()) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(mode_of(directory_ / "other"), 0644U);
}

TEST_F(InPlaceFileTest, OpensTheLockedFileAndNoOther) {
  const InPlaceFile locked(name_);
  EXPECT_EQ(test::Bytes(content_), [&] {
    Bytes bytes(content_.size());
    locked.open()->read_at(0, std::span(bytes));
    return bytes;
  }());
  write_whole(directory_ / "other", content_);
  std::filesystem::rename(directory_ / "other", name_);
  EXPECT_FALSE(locked.is_named());
  EXPECT_EQ(caught([&] { locked.open(); }), failure(ErrorCode::kFileLocked));
  std::filesystem::remove(name_);
  std::filesystem::create_symlink("elsewhere", name_);
  EXPECT_EQ(caught([&] { locked.open(); }), failure(ErrorCode::kOpenFailed));
}

TEST_F(InPlaceFileTest, ReplacesOnlyWhatItWasMadeFor) {
  const InPlaceFile first(name_);
  InPlaceFile next = InPlaceFile::create_beside(first, "next");
  EXPECT_EQ(mode_of(directory_ / "next"), 0600U);
  EXPECT_EQ(caught([&] { InPlaceFile::create_beside(first, "next"); }), failure(ErrorCode::kOpenFailed));
  std::filesystem::rename(name_, directory_ / "moved");
  write_whole(name_, content_);
  EXPECT_EQ(caught([&] { next.replace(first); }), failure(ErrorCode::kFileLocked));
  EXPECT_EQ(read_whole(name_), content_);
  std::filesystem::rename(directory_ / "moved", name_);
  next.replace(first);
  EXPECT_TRUE(next.is_named());
  EXPECT_EQ(next.name(), "file");
  EXPECT_THAT(directory_.entries(), ElementsAre("file"));
}

TEST_F(InPlaceFileTest, IsARegularFile) {
  ASSERT_EQ(::mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(caught([&] { const InPlaceFile file(directory_ / "fifo"); }), failure(ErrorCode::kOpenFailed));
}

TEST_F(InPlaceFileTest, SyncsTheDirectoryOfAName) {
  EXPECT_EQ(caught([&] { sync_directory_of(name_); }), test::Caught{});
  EXPECT_EQ(caught([&] { sync_directory_of(directory_ / "no file of this name"); }), test::Caught{});
  EXPECT_EQ(caught([&] { sync_directory_of(directory_ / "none/file"); }), failure(ErrorCode::kSyncFailed));
  EXPECT_EQ(caught([] { sync_directory_of("name without a directory"); }), test::Caught{});
}

}  // namespace
}  // namespace tzmark
