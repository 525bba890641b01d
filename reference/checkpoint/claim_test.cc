// Tests of the file that shows who saves to a directory: other processes are named, and files of others left alone.
#include "checkpoint/claim.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "testing/faults/system_calls.h"
#include "testing/files/checkpoint_models.h"

namespace tzmark::checkpoint {
namespace {

using test::Call;
using test::caught;
using test::failure;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void write_text(const std::string& name, std::string_view text) {
  test::write_whole(name, std::as_bytes(std::span(text)));
}

// A file as another process writes it.
void write_other(const test::TestDirectory& directory) {
  write_text(directory / ".tzmark-writer", R"({"host": "host-a", "pid": 42, "process": "other"})");
}

Descriptor lock_writer(const test::TestDirectory& directory) {
  Descriptor file = Directory(directory.name()).open_file(std::string(kWriterName), O_RDWR);
  EXPECT_TRUE(try_lock(file.get(), Lock::kAlone));
  return file;
}

TEST(Claims, AreFilesThatOthersCannotOpenAndThatGoWithThem) {
  const test::TestDirectory directory;
  {
    Claims claims(true);
    EXPECT_EQ(claims.hold(directory.name()), "");
    EXPECT_EQ(claims.hold(directory.name()), "");
    struct stat status {};
    ASSERT_EQ(::stat((directory / ".tzmark-writer").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    EXPECT_GT(status.st_size, 0);
  }
  EXPECT_THAT(directory.entries(), IsEmpty());
}

TEST(Claims, NameALiveProcessOnceOrRefuseIt) {
  const test::TestDirectory directory;
  write_other(directory);
  {
    const Descriptor other = lock_writer(directory);
    Claims claims(false), exclusive(true);
    EXPECT_EQ(claims.hold(directory.name()), directory.name() + ": process 42 on host-a saves there too");
    EXPECT_EQ(claims.hold(directory.name()), "");
    EXPECT_EQ(caught([&] { exclusive.hold(directory.name()); }), failure(ErrorCode::kFileLocked));
    EXPECT_THAT(test::message_of([&] { exclusive.hold(directory.name()); }), HasSubstr("process 42 on host-a"));
  }
  // It has died now.
  Claims claims(true);
  EXPECT_EQ(claims.hold(directory.name()), "");
}

TEST(Claims, OfOneProcessExcludeEachOtherOnlyIfAsked) {
  const test::TestDirectory directory;
  Claims first(false), second(false);
  EXPECT_EQ(first.hold(directory.name()), "");
  EXPECT_EQ(second.hold(directory.name()), "");
  Claims exclusive(true);
  EXPECT_THAT(test::message_of([&] { exclusive.hold(directory.name()); }),
              HasSubstr("another checkpointer of this process"));
  first.release();
  EXPECT_EQ(exclusive.hold(directory.name()), "");
}

TEST(Claims, EndWithAProcessThatIsKilled) {
  const test::TestDirectory directory;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Claims claims(true);
    const char done = claims.hold(directory.name()).empty() ? 'y' : 'n';
    if (::write(ready[1], &done, 1) == 1) ::pause();
    ::_exit(1);
  }
  char done = 'n';
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  ASSERT_EQ(done, 'y');
  Claims claims(true);
  EXPECT_EQ(caught([&] { claims.hold(directory.name()); }), failure(ErrorCode::kFileLocked));
  ::kill(child, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(std::filesystem::exists(directory / ".tzmark-writer"));
  EXPECT_EQ(claims.hold(directory.name()), "");
  for (const int fd : ready) ::close(fd);
}

// The other one may be exclusive, too.
TEST(Claims, AreMadeAgainIfTheirFileIsGone) {
  const test::TestDirectory directory;
  Claims first(true), second(true);
  EXPECT_EQ(first.hold(directory.name()), "");
  std::filesystem::remove(directory / ".tzmark-writer");
  EXPECT_EQ(first.hold(directory.name()), "");
  EXPECT_TRUE(std::filesystem::exists(directory / ".tzmark-writer"));
  EXPECT_EQ(caught([&] { second.hold(directory.name()); }), failure(ErrorCode::kFileLocked));
  std::filesystem::remove(directory / ".tzmark-writer");
  EXPECT_EQ(second.hold(directory.name()), "");
  EXPECT_EQ(caught([&] { first.hold(directory.name()); }), failure(ErrorCode::kFileLocked));
  first.release();
  EXPECT_TRUE(std::filesystem::exists(directory / ".tzmark-writer"));
}

// As when a training job is killed and the processes that load its data are not.
TEST(Claims, EndWithAProcessWhoseForkedChildLives) {
  const test::TestDirectory directory;
  int ready[2], ends[2];
  ASSERT_EQ(::pipe(ready), 0);
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t job = ::fork();
  if (job == 0) {
    Claims claims(true);
    char done = claims.hold(directory.name()).empty() ? 'y' : 'n';
    if (::fork() == 0) {
      ::close(ends[1]);
      const bool has_ended = ::write(ready[1], &done, 1) == 1 && ::read(ends[0], &done, 1) == 0;
      ::_exit(has_ended ? 0 : 1);
    }
    ::pause();
    ::_exit(1);
  }
  char done = 'n';
  ASSERT_EQ(::read(ready[0], &done, 1), 1);
  ASSERT_EQ(done, 'y');
  ::kill(job, SIGKILL);
  int status = 0;
  ASSERT_EQ(::waitpid(job, &status, 0), job);
  Claims claims(true);
  EXPECT_EQ(test::message_of([&] { claims.hold(directory.name()); }), "");
  for (const int fd : {ready[0], ready[1], ends[0], ends[1]}) ::close(fd);
}

TEST(Claims, OfAForkedChildAreThoseOfASecondProcess) {
  const test::TestDirectory directory;
  Claims claims(true);
  claims.hold(directory.name());
  const std::string parent = describe(this_process()) + " saves there";
  const pid_t child = ::fork();
  if (child == 0) {
    Claims own(false);
    const bool is_told = own.hold(directory.name()) == directory.name() + ": " + parent + " too";
    const bool is_refused = caught([&] { claims.hold(directory.name()); }) == failure(ErrorCode::kFileLocked);
    ::_exit(is_told && is_refused && other_writer(directory.name()) == parent ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(claims.hold(directory.name()), "");
  EXPECT_EQ(other_writer(directory.name()), "");
}

TEST(Claims, OfOthersAreSeenWithoutAClaim) {
  const test::TestDirectory directory;
  EXPECT_EQ(other_writer(directory.name()), "");
  write_other(directory);
  EXPECT_EQ(other_writer(directory.name()), "");
  {
    const Descriptor other = lock_writer(directory);
    EXPECT_EQ(other_writer(directory.name()), "process 42 on host-a saves there");
    write_text(directory / ".tzmark-writer", "{");
    EXPECT_THAT(other_writer(directory.name()), HasSubstr("a process that does not name itself in"));
  }
  EXPECT_THAT(directory.entries(), ElementsAre(".tzmark-writer"));
  std::filesystem::remove(directory / ".tzmark-writer");
  ASSERT_EQ(::mkfifo((directory / ".tzmark-writer").c_str(), 0600), 0);
  EXPECT_THAT(other_writer(directory.name()), HasSubstr("cannot find out whether another process saves there"));
  EXPECT_EQ(caught([&] { other_writer(directory / "missing"); }), failure(ErrorCode::kOpenFailed));
}

// A process that looks locks the file for a moment.
TEST(Claims, AreNotRefusedBecauseAnotherProcessLooks) {
  const test::TestDirectory directory;
  write_other(directory);
  std::optional<Descriptor> looking;
  const test::SystemCalls calls([&](const Call& call) {
    if (call.kind == Call::Kind::kLock && !looking) {
      looking.emplace(Directory(directory.name()).open_file(std::string(kWriterName), O_RDONLY));
      EXPECT_TRUE(try_lock(looking->get(), Lock::kShared));
    } else {
      looking = Descriptor();
    }
    return true;
  });
  Claims claims(true);
  EXPECT_EQ(test::message_of([&] { claims.hold(directory.name()); }), "");
  EXPECT_TRUE(looking);
}

// A child would remove the claim of its parent.
TEST(Claims, AreNotReleasedByAFork) {
  const test::TestDirectory directory;
  Claims claims(true);
  claims.hold(directory.name());
  const pid_t child = ::fork();
  if (child == 0) {
    claims.release();
    ::_exit(0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(std::filesystem::exists(directory / ".tzmark-writer"));
}

TEST(Claims, WriteToNoFileOfOthers) {
  const test::TestDirectory directory, elsewhere;
  const std::string name = directory / ".tzmark-writer", victim = elsewhere / "victim";
  write_text(victim, "precious");
  const auto expect_untouched = [&] {
    const test::Bytes content = test::read_whole(victim);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(content.data()), content.size()), "precious");
  };
  std::filesystem::create_symlink(victim, name);
  Claims exclusive(true), claims(false);
  EXPECT_EQ(caught([&] { exclusive.hold(directory.name()); }), failure(ErrorCode::kOpenFailed));
  EXPECT_THAT(claims.hold(directory.name()), HasSubstr("cannot find out whether another process saves there"));
  expect_untouched();
  std::filesystem::remove(name);
  std::filesystem::create_hard_link(victim, name);
  EXPECT_EQ(exclusive.hold(directory.name()), "");
  expect_untouched();
  exclusive.release();
  ASSERT_EQ(::mkfifo(name.c_str(), 0600), 0);
  EXPECT_THAT(test::message_of([&] { exclusive.hold(directory.name()); }), HasSubstr("not a regular file: delete it"));
}

// At every call, another process finds the file unlocked, removes it and makes its own.
TEST(Claims, AreNotHeldByTwoProcesses) {
  unsigned at = 0, meetings = 0;
  for (bool through = false; !through; ++at) {
    const test::TestDirectory directory;
    write_other(directory);
    unsigned calls = 0;
    Claims other(true), claims(true);
    bool other_holds = false;
    {
      const test::SystemCalls both([&](const Call&) {
        if (calls++ != at) return true;
        other_holds = test::message_of([&] { other.hold(directory.name()); }).empty();
        return true;
      });
      const bool holds = test::message_of([&] { claims.hold(directory.name()); }).empty();
      EXPECT_NE(holds, other_holds && calls > at) << "call " << at;
      meetings += !holds;
    }
    through = calls <= at;
  }
  EXPECT_GT(at, 5U);
  EXPECT_GT(meetings, 2U);
}

TEST(Claims, OfACheckpointerAreInTheReportOrTheErrorOfASave) {
  const test::TestDirectory directory;
  write_other(directory);
  const Descriptor other = lock_writer(directory);
  AsyncCheckpointer checkpointer;
  checkpointer.save(directory / "a", test::small_model(1), {}, test::state_at(1));
  EXPECT_THAT(checkpointer.wait().warnings, ElementsAre(HasSubstr("process 42 on host-a saves there too")));
  CheckpointOptions options;
  options.exclusive = true;
  AsyncCheckpointer exclusive(options);
  exclusive.save(directory / "b", test::small_model(2), {}, test::state_at(2));
  EXPECT_EQ(caught([&] { exclusive.wait(); }), failure(ErrorCode::kFileLocked));
  EXPECT_EQ(caught([&] { exclusive.claim(directory.name()); }), failure(ErrorCode::kFileLocked));
  EXPECT_THAT(test::entries_of(directory), ElementsAre("a", "latest"));
}

}  // namespace
}  // namespace tzmark::checkpoint
