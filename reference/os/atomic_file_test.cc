// Tests of files that appear whole or not at all, of files without a name, and of streams that go to one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <climits>
#include <functional>
#include <optional>
#include <thread>

#include "testing/caught.h"
#include "testing/faults/system_calls.h"
#include "testing/faults/system_faults.h"
#include "testing/files/path_test.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::random_bytes;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using Existing = AtomicFile::Existing;

class AtomicFileTest : public ::testing::Test {
 protected:
  void write_and_commit(AtomicFile& output) const {
    output.file().write_at(0, std::span(content_));
    output.commit();
  }

  const test::TestDirectory directory_;
  const std::string name_ = directory_ / "out";
  const Bytes content_ = random_bytes(10'000, 1);
  const Bytes earlier_ = random_bytes(100, 2);
};

TEST_F(AtomicFileTest, AppearsWithItsContentAtCommit) {
  for (const Existing existing : {Existing::kReplace, Existing::kRefuse}) {
    AtomicFile output(name_, "auto", existing);
    output.file().write_at(0, std::span(content_));
    // Until then no file has the name.
    EXPECT_FALSE(std::filesystem::exists(name_));
    output.commit();
    EXPECT_THAT(directory_.entries(), ElementsAre("out"));
    EXPECT_EQ(test::read_whole(name_), content_);
    std::filesystem::remove(name_);
  }
}

TEST_F(AtomicFileTest, WithEveryPath) {
  for (const IoPath& path : io_paths()) {
    if (!test::why_unusable(path, directory_).empty()) continue;
    AtomicFile output(name_, path.name);
    EXPECT_EQ(output.file().io_path(), path.name);
    write_and_commit(output);
    EXPECT_EQ(test::read_whole(name_), content_) << path.name;
    std::filesystem::remove(name_);
  }
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  for (const Existing existing : {Existing::kReplace, Existing::kRefuse}) {
    {
      AtomicFile output(name_, "auto", existing);
      output.file().write_at(0, std::span(content_));
      output.file().sync();
    }
    EXPECT_THAT(directory_.entries(), IsEmpty());
  }
}

TEST_F(AtomicFileTest, KeepsAnExistingFileUntilCommit) {
  test::write_whole(name_, earlier_);
  {
    AtomicFile output(name_);
    output.file().write_at(0, std::span(content_));
    EXPECT_EQ(test::read_whole(name_), earlier_);
  }
  EXPECT_EQ(test::read_whole(name_), earlier_);
  AtomicFile output(name_);
  write_and_commit(output);
  EXPECT_EQ(test::read_whole(name_), content_);
  EXPECT_THAT(directory_.entries(), ElementsAre("out"));
}

TEST_F(AtomicFileTest, RefusesAnExistingFile) {
  test::write_whole(name_, earlier_);
  EXPECT_EQ(caught([&] { AtomicFile(name_, "auto", Existing::kRefuse); }), failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(directory_.entries(), ElementsAre("out"));
  EXPECT_EQ(test::read_whole(name_), earlier_);
}

TEST_F(AtomicFileTest, RefusesAFileThatSomebodyElseMadeMeanwhile) {
  {
    AtomicFile output(name_, "auto", Existing::kRefuse);
    test::write_whole(name_, earlier_);
    EXPECT_EQ(caught([&] { write_and_commit(output); }), failure(ErrorCode::kWriteFailed));
  }
  EXPECT_THAT(directory_.entries(), ElementsAre("out"));
  EXPECT_EQ(test::read_whole(name_), earlier_);
}

// The temporary name is shorter then.
TEST_F(AtomicFileTest, MayHaveTheLongestName) {
  std::string longest;
  while (longest.size() < NAME_MAX - 1) longest += "\u00e9";
  for (const bool is_refused : {false, true}) {
    std::optional<test::RefusedCall> refused;
    if (is_refused) refused.emplace(test::RefusedCall::Call::kOpenWithoutName, EOPNOTSUPP);
    AtomicFile output(directory_ / longest);
    if (is_refused) {
      const std::string temporary = directory_.entries().front();
      EXPECT_THAT(temporary.substr(0, temporary.find(".tmp-")), ::testing::MatchesRegex("(\u00e9)+"));
    }
    write_and_commit(output);
    EXPECT_THAT(directory_.entries(), ElementsAre(longest));
    std::filesystem::remove(directory_ / longest);
  }
  EXPECT_EQ(caught([&] { const AtomicFile output(directory_ / (longest + "nn")); }), failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(directory_.entries(), IsEmpty());
}

TEST_F(AtomicFileTest, TwoAtOnceDoNotMeet) {
  AtomicFile first(name_), second(name_);
  first.file().write_at(0, std::span(earlier_));
  second.file().write_at(0, std::span(content_));
  first.commit();
  EXPECT_EQ(test::read_whole(name_), earlier_);
  second.commit();
  EXPECT_EQ(test::read_whole(name_), content_);
  EXPECT_THAT(directory_.entries(), ElementsAre("out"));
}

mode_t mode_of(const std::string& name) {
  struct stat status {};
  if (::stat(name.c_str(), &status) != 0) throw std::runtime_error("cannot ask for the mode of " + name);
  return status.st_mode & 07777;
}

TEST_F(AtomicFileTest, HasATemporaryNameWhereItNeedsOne) {
  for (const int error_number : {EOPNOTSUPP, EISDIR, EINVAL}) {
    const test::RefusedCall refused(test::RefusedCall::Call::kOpenWithoutName, error_number);
    for (const Existing existing : {Existing::kReplace, Existing::kRefuse}) {
      AtomicFile output(name_, "auto", existing);
      ASSERT_THAT(directory_.entries(), ElementsAre(::testing::StartsWith("out.tmp-")));
      write_and_commit(output);
      EXPECT_THAT(directory_.entries(), ElementsAre("out"));
      EXPECT_EQ(test::read_whole(name_), content_);
      std::filesystem::remove(name_);
    }
    { const AtomicFile output(name_); }
    EXPECT_THAT(directory_.entries(), IsEmpty());
  }
}

// A security policy can forbid links where files without a name exist.
TEST_F(AtomicFileTest, HasATemporaryNameWhereLinksAreRefused) {
  for (const int error_number : {EACCES, EPERM}) {
    const test::RefusedCall refused(test::RefusedCall::Call::kLink, error_number);
    for (const Existing existing : {Existing::kRefuse, Existing::kReplace}) {
      AtomicFile output(name_, "auto", existing);
      EXPECT_THAT(directory_.entries(), ElementsAre(testing::StartsWith("out.tmp-")));
      write_and_commit(output);
      EXPECT_THAT(directory_.entries(), ElementsAre("out"));
      EXPECT_EQ(test::read_whole(name_), content_);
      std::filesystem::remove(name_);
    }
  }
}

TEST_F(AtomicFileTest, SaysThatTheNameIsNotDurableWhereDirectoriesCannotBeSynced) {
  for (const int error_number : {EINVAL, EOPNOTSUPP, ENOSYS}) {
    const test::RefusedCall refused(test::RefusedCall::Call::kSyncDirectory, error_number);
    EXPECT_EQ(caught([&] { AtomicFile(name_, "auto", Existing::kReplace, Durability::kRequired); }),
              failure(ErrorCode::kUnavailable));
    EXPECT_THAT(directory_.entries(), IsEmpty());
    AtomicFile output(name_);
    output.file().write_at(0, std::span(content_));
    EXPECT_FALSE(output.commit());
    EXPECT_EQ(test::read_whole(name_), content_);
    std::filesystem::remove(name_);
  }
  AtomicFile output(name_, "auto", Existing::kReplace, Durability::kRequired);
  output.file().write_at(0, std::span(content_));
  EXPECT_TRUE(output.commit());
}

TEST_F(AtomicFileTest, FailsIfTheSyncOfTheDirectoryFails) {
  const test::RefusedCall refused(test::RefusedCall::Call::kSyncDirectory, EIO);
  EXPECT_EQ(caught([&] { AtomicFile(name_, "auto", Existing::kReplace, Durability::kRequired); }),
            failure(ErrorCode::kSyncFailed));
  AtomicFile output(name_);
  EXPECT_EQ(caught([&] { write_and_commit(output); }), failure(ErrorCode::kSyncFailed));
}

TEST_F(AtomicFileTest, LeavesNothingWhereNothingCanBeRenamed) {
  for (const int error_number : {EPERM, ENOSYS, EOPNOTSUPP, EXDEV}) {
    const test::RefusedCall refused(test::RefusedCall::Call::kRename, error_number);
    {
      AtomicFile output(name_);
      EXPECT_THAT(test::message_of([&] { write_and_commit(output); }), testing::HasSubstr("cannot rename"));
    }
    EXPECT_THAT(directory_.entries(), IsEmpty());
  }
}

TEST_F(AtomicFileTest, KeepsTheModeOfWhatItReplaces) {
  const test::RefusedCall refused(test::RefusedCall::Call::kOpenWithoutName, EOPNOTSUPP);
  test::write_whole(name_, earlier_);
  for (const mode_t mode : {0600U, 0640U, 0400U, 0666U}) {
    ASSERT_EQ(::chmod(name_.c_str(), mode), 0);
    AtomicFile output(name_);
    output.file().write_at(0, std::span(content_));
    // No other process can open it meanwhile, whatever its name.
    EXPECT_EQ(mode_of(directory_ / directory_.entries().back()), 0600U);
    output.commit();
    EXPECT_EQ(mode_of(name_), mode);
  }
}

// A look at the old file that fails must not give the new one to more users.
TEST_F(AtomicFileTest, IsOpenToNoMoreUsersWhateverLookFails) {
  test::write_whole(name_, earlier_);
  ASSERT_EQ(::chmod(name_.c_str(), 0600), 0);
  int failed = 0;
  for (const int error_number : {EIO, ESTALE, ENOMEM}) {
    bool is_met = true;
    for (int failing = 0; is_met; ++failing) {
      int seen = 0;
      is_met = false;
      const test::SystemCalls calls([&](const test::Call& call) -> test::Reply {
        if (call.kind != test::Call::Kind::kLook || seen++ != failing) return true;
        is_met = true;
        return test::Reply::failure(error_number);
      });
      try {
        AtomicFile output(name_);
        write_and_commit(output);
      } catch (const Error&) {
        ++failed;
      }
      EXPECT_EQ(mode_of(name_) & 0077U, 0U) << error_number << " of look " << failing;
    }
  }
  EXPECT_GT(failed, 0);
}

TEST_F(AtomicFileTest, OwnersThatCannotBeKeptAreNoFailure) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of another owner";
  for (const int error_number : {EPERM, EINVAL}) {
    const test::RefusedCall refused(test::RefusedCall::Call::kChangeOwner, error_number);
    test::write_whole(name_, earlier_);
    ASSERT_EQ(::chown(name_.c_str(), 65534, 65533), 0);
    ASSERT_EQ(::chmod(name_.c_str(), 0664), 0);
    AtomicFile output(name_);
    write_and_commit(output);
    EXPECT_EQ(test::read_whole(name_), content_);
    // Its group is another one, which may not do more than everybody.
    EXPECT_EQ(mode_of(name_), 0644U);
    std::filesystem::remove(name_);
  }
  const test::RefusedCall refused(test::RefusedCall::Call::kChangeOwner, EIO);
  test::write_whole(name_, earlier_);
  ASSERT_EQ(::chown(name_.c_str(), 65534, 65533), 0);
  AtomicFile output(name_);
  EXPECT_EQ(caught([&] { write_and_commit(output); }), failure(ErrorCode::kWriteFailed));
  EXPECT_EQ(test::read_whole(name_), earlier_);
}

// Sets the umask while it lives.
class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;
  ~Umask() { ::umask(before_); }

 private:
  const mode_t before_;
};

TEST_F(AtomicFileTest, IsPrivateUntilItIsWhole) {
  const Umask umask(022);
  const test::RefusedCall refused(test::RefusedCall::Call::kOpenWithoutName, EOPNOTSUPP);
  AtomicFile output(name_);
  EXPECT_EQ(mode_of(directory_ / directory_.entries().back()), 0600U);
  write_and_commit(output);
  EXPECT_EQ(mode_of(name_), 0644U);
}

TEST_F(AtomicFileTest, KeepsAModeThatIsSetMeanwhile) {
  const Umask umask(022);
  test::write_whole(name_, earlier_);
  ASSERT_EQ(::chmod(name_.c_str(), 0644), 0);
  {
    AtomicFile output(name_);
    ASSERT_EQ(::chmod(name_.c_str(), 0600), 0);
    write_and_commit(output);
    EXPECT_EQ(mode_of(name_), 0600U);
  }
  AtomicFile output(name_);
  std::filesystem::remove(name_);
  write_and_commit(output);
  EXPECT_EQ(mode_of(name_), 0644U);
}

TEST_F(AtomicFileTest, GivesNothingAwayWhereOthersMayCreateFiles) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make a file of another owner";
  const Umask umask(022);
  const auto expect_own = [&](mode_t mode) {
    AtomicFile output(name_);
    write_and_commit(output);
    struct stat status {};
    ASSERT_EQ(::lstat(name_.c_str(), &status), 0);
    EXPECT_EQ(status.st_uid, 0U);
    EXPECT_EQ(status.st_mode, S_IFREG | mode);
    std::filesystem::remove(name_);
  };
  ASSERT_EQ(::chmod(directory_.name().c_str(), 01777), 0);
  // What was private stays so.
  for (const auto& [found, mode] : {std::pair(0666U, 0644U), std::pair(0600U, 0600U)}) {
    test::write_whole(name_, earlier_);
    ASSERT_EQ(::chmod(name_.c_str(), found), 0);
    ASSERT_EQ(::chown(name_.c_str(), 65534, 65533), 0);
    expect_own(mode);
  }
  // A link of somebody else to a file of this user, and the other way around, in a directory of this user.
  ASSERT_EQ(::chmod(directory_.name().c_str(), 0755), 0);
  for (const uid_t link_owner : {65534U, 0U}) {
    test::write_whole(directory_ / "target", earlier_);
    ASSERT_EQ(::chmod((directory_ / "target").c_str(), 0666), 0);
    ASSERT_EQ(::chown((directory_ / "target").c_str(), 65534 - link_owner, 0), 0);
    std::filesystem::create_symlink("target", name_);
    ASSERT_EQ(::lchown(name_.c_str(), link_owner, 0), 0);
    expect_own(0644);
  }
}

TEST_F(AtomicFileTest, RefusesAnExistingFileOnEveryFileSystem) {
  const test::RefusedCall no_flag(test::RefusedCall::Call::kRenameToFree, EINVAL);
  const test::RefusedCall no_file_without_name(test::RefusedCall::Call::kOpenWithoutName, EOPNOTSUPP);
  // Without the flag, by a link.
  {
    AtomicFile output(name_, "auto", Existing::kRefuse);
    write_and_commit(output);
    EXPECT_THAT(directory_.entries(), ElementsAre("out"));
    std::filesystem::remove(name_);
  }
  {
    AtomicFile output(name_, "auto", Existing::kRefuse);
    test::write_whole(name_, earlier_);
    EXPECT_EQ(caught([&] { write_and_commit(output); }), failure(ErrorCode::kWriteFailed));
    EXPECT_EQ(test::read_whole(name_), earlier_);
    std::filesystem::remove(name_);
  }
  // Without either, not at all: not even where nothing would be replaced, as that cannot be known.
  for (const int error_number : {EPERM, EOPNOTSUPP}) {
    const test::RefusedCall no_link(test::RefusedCall::Call::kLink, error_number);
    {
      AtomicFile output(name_, "auto", Existing::kRefuse);
      EXPECT_EQ(caught([&] { write_and_commit(output); }), failure(ErrorCode::kUnavailable));
    }
    EXPECT_THAT(directory_.entries(), IsEmpty());
    // Replacing needs neither.
    AtomicFile output(name_);
    write_and_commit(output);
    EXPECT_EQ(test::read_whole(name_), content_);
    std::filesystem::remove(name_);
  }
}

TEST_F(AtomicFileTest, StaysInItsDirectoryWhenThatIsRenamed) {
  const std::string inner = directory_ / "inner", moved = directory_ / "moved";
  std::filesystem::create_directory(inner);
  AtomicFile output(inner + "/out");
  output.file().write_at(0, std::span(content_));
  std::filesystem::rename(inner, moved);
  std::filesystem::create_directory(inner);
  output.commit();
  EXPECT_EQ(test::read_whole(moved + "/out"), content_);
  EXPECT_TRUE(std::filesystem::is_empty(inner));
}

TEST_F(AtomicFileTest, ReplacesLinksAndNotWhatTheyLeadTo) {
  test::write_whole(directory_ / "target", earlier_);
  for (const std::string target : {"target", "nothing"}) {
    std::filesystem::create_symlink(target, name_);
    AtomicFile output(name_);
    write_and_commit(output);
    EXPECT_FALSE(std::filesystem::is_symlink(name_));
    EXPECT_EQ(test::read_whole(name_), content_);
    std::filesystem::remove(name_);
  }
  EXPECT_EQ(test::read_whole(directory_ / "target"), earlier_);
  // A device, and an open file of this process.
  for (const std::string target : {"/dev/null", "/proc/self/fd/1"}) {
    std::filesystem::create_symlink(target, name_);
    EXPECT_EQ(caught([&] { AtomicFile output(name_); }), failure(ErrorCode::kOpenFailed));
    EXPECT_TRUE(std::filesystem::is_symlink(name_));
    std::filesystem::remove(name_);
  }
}

TEST_F(AtomicFileTest, NeedsADirectory) {
  for (const Existing existing : {Existing::kReplace, Existing::kRefuse}) {
    EXPECT_EQ(caught([&] { AtomicFile(directory_ / "none/out", "auto", existing); }), failure(ErrorCode::kOpenFailed));
    test::write_whole(name_, earlier_);
    EXPECT_EQ(caught([&] { AtomicFile(name_ + "/out", "auto", existing); }), failure(ErrorCode::kOpenFailed));
  }
  EXPECT_THAT(directory_.entries(), ElementsAre("out"));
}

TEST_F(AtomicFileTest, NamesThatAreTooLong) {
  for (const Existing existing : {Existing::kReplace, Existing::kRefuse}) {
    EXPECT_EQ(caught([&] { AtomicFile(directory_ / std::string(300, 'x'), "auto", existing); }),
              failure(ErrorCode::kOpenFailed));
  }
}

TEST_F(AtomicFileTest, ReplacesRegularFilesOnly) {
  // A rename would put a regular file in the place of /dev/null.
  ASSERT_EQ(::mkfifo(name_.c_str(), 0666), 0);
  EXPECT_EQ(caught([&] { AtomicFile output(name_); }), failure(ErrorCode::kOpenFailed));
  EXPECT_TRUE(std::filesystem::is_fifo(name_));
  EXPECT_EQ(caught([&] { AtomicFile output(directory_.name()); }), failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(directory_.entries(), ElementsAre("out"));
}

TEST_F(AtomicFileTest, UnknownPathsAreWrongUsage) {
  EXPECT_EQ(caught([&] { AtomicFile(name_, "floppy"); }), failure(ErrorCode::kUsage));
  EXPECT_THAT(directory_.entries(), IsEmpty());
}

TEST_F(AtomicFileTest, TakesNamesWithoutADirectory) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(directory_.name());
  const auto result = caught([&] {
    AtomicFile output("out");
    write_and_commit(output);
  });
  std::filesystem::current_path(before);
  EXPECT_EQ(result, test::Caught{});
  EXPECT_EQ(test::read_whole(name_), content_);
}

TEST_F(AtomicFileTest, LeavesNothingWhenTheDiskIsFull) {
  for (const IoPath& path : io_paths()) {
    if (!test::why_unusable(path, directory_).empty()) continue;
    test::write_whole(name_, earlier_);
    test::Caught result;
    {
      // So few bytes that a path with a buffer notices at commit only.
      const test::FileSizeLimit limit(1'000);
      result = caught([&] {
        AtomicFile output(name_, path.name);
        output.file().write_at(0, std::span(content_).first(2'000));
        output.commit();
      });
    }
    EXPECT_EQ(result.code, ErrorCode::kWriteFailed) << path.name;
    EXPECT_THAT(directory_.entries(), ElementsAre("out")) << path.name;
    EXPECT_EQ(test::read_whole(name_), earlier_) << path.name;
  }
}

// As long as it lives, temporary files go to another directory.
class TemporaryFilesIn {
 public:
  explicit TemporaryFilesIn(const std::string& directory) {
    if (const char* const before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", directory.c_str(), 1);
  }
  TemporaryFilesIn(const TemporaryFilesIn&) = delete;
  TemporaryFilesIn& operator=(const TemporaryFilesIn&) = delete;
  ~TemporaryFilesIn() { before_ ? ::setenv("TMPDIR", before_->c_str(), 1) : ::unsetenv("TMPDIR"); }

 private:
  std::optional<std::string> before_;
};

TEST(TemporaryFile, HasNoName) {
  const test::TestDirectory directory;
  const TemporaryFilesIn setting(directory.name());
  const auto file = temporary_file();
  const Bytes content = random_bytes(10'000, 3);
  file->write_at(0, std::span(content));
  EXPECT_THAT(directory.entries(), IsEmpty());
  Bytes read(content.size());
  file->read_at(0, std::span(read));
  EXPECT_EQ(read, content);
}

TEST(TemporaryFile, LiesInTmpdir) {
  const test::TestDirectory directory;
  {
    const TemporaryFilesIn setting(directory / "none");
    EXPECT_EQ(caught([] { temporary_file(); }), failure(ErrorCode::kOpenFailed));
  }
  // An empty setting is none.
  const TemporaryFilesIn setting("");
  EXPECT_EQ(caught([] { temporary_file(); }), test::Caught{});
}

// Spools what write puts into a pipe from another thread.
Bytes spool_of(const std::function<void(int)>& write) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  std::jthread writer([&] {
    write(ends[1]);
    ::close(ends[1]);
  });
  const auto file = spool(ends[0]);
  ::close(ends[0]);
  Bytes bytes(file->size());
  file->read_at(0, std::span(bytes));
  return bytes;
}

TEST(Spool, TakesAllThatComesThroughAPipe) {
  const Bytes content = random_bytes((3 << 20) + 17, 4);
  const Bytes spooled = spool_of([&](int pipe) {
    for (std::size_t at = 0; at < content.size();) {
      const auto moved = ::write(pipe, content.data() + at, std::min<std::size_t>(100'001, content.size() - at));
      if (moved <= 0) return;
      at += static_cast<std::size_t>(moved);
    }
  });
  EXPECT_EQ(spooled, content);
}

TEST(Spool, WaitsForAPipeThatDoesNotBlock) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  std::jthread writer([&] {
    // The reader finds nothing at first, most often, and goes wrong if it takes that for the end.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(::write(ends[1], "late", 4), 4);
    ::close(ends[1]);
  });
  const auto file = spool(ends[0]);
  ::close(ends[0]);
  EXPECT_EQ(file->size(), 4U);
}

TEST(Spool, TakesNothingFromAnEmptyPipe) {
  EXPECT_EQ(spool_of([](int) {}), Bytes());
}

TEST(Spool, TakesRegularFilesFromWhereTheyStand) {
  const test::TestDirectory directory;
  const Bytes content = random_bytes(1000, 5);
  test::write_whole(directory / "file", content);
  const int descriptor = ::open((directory / "file").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::lseek(descriptor, 100, SEEK_SET), 100);
  const auto file = spool(descriptor);
  ::close(descriptor);
  Bytes bytes(file->size());
  file->read_at(0, std::span(bytes));
  EXPECT_EQ(bytes, Bytes(content.begin() + 100, content.end()));
}

TEST(Spool, ReadingFails) {
  EXPECT_EQ(caught([] { spool(-1); }), failure(ErrorCode::kReadFailed, 0));
}

}  // namespace
}  // namespace tzmark
