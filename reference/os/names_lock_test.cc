// Tests of the lock for changes of several names: who can hold it, who waits, and what stays.
#include "os/names_lock.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "os/atomic_file.h"
#include "testing/faults/system_calls.h"
#include "testing/files/other_user.h"
#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

using namespace std::chrono_literals;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct NamesRefusal {
  ErrorCode code{};
  std::string message;
};

NamesRefusal refusal_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.code(), error.message()};
  }
  return {};
}

class NamesLockTest : public ::testing::Test {
 protected:
  std::shared_ptr<const Directory> open() const { return std::make_shared<const Directory>(room_.name()); }
  NamesWait briefly() {
    return {100ms, [this](const std::string& line) { told_.push_back(line); }};
  }

  const test::TestDirectory room_;
  const std::string file_ = room_ / NamesLock::kName;
  std::vector<std::string> told_;
};

TEST_F(NamesLockTest, OneAtATime) {
  {
    const NamesLock lock(open(), briefly());
    EXPECT_THAT(told_, IsEmpty());
    EXPECT_EQ(std::filesystem::status(file_).permissions(), std::filesystem::perms(0600));
    const auto refused = refusal_of([&] { const NamesLock second(open(), briefly()); });
    EXPECT_EQ(refused.code, ErrorCode::kFileLocked);
    EXPECT_THAT(refused.message, HasSubstr("remove " + file_));
    EXPECT_THAT(told_, ElementsAre(HasSubstr("it holds " + file_)));
  }
  EXPECT_THAT(room_.entries(), IsEmpty());
  const NamesLock lock(open(), briefly());
}

TEST_F(NamesLockTest, WaitsForItsTurn) {
  auto first = std::make_unique<NamesLock>(open(), briefly());
  std::thread end([&] {
    std::this_thread::sleep_for(300ms);
    first.reset();
  });
  const NamesLock second(open(), {10s, {}});
  end.join();
  EXPECT_THAT(room_.entries(), ElementsAre(NamesLock::kName));
}

TEST_F(NamesLockTest, TakesOverWhatAKillHasLeft) {
  test::write_whole(file_, {});
  { const NamesLock lock(open(), briefly()); }
  EXPECT_THAT(room_.entries(), IsEmpty());
}

// Anyone who may read a directory can lock it.
TEST_F(NamesLockTest, IsNotStoppedByALockOfTheDirectory) {
  const int held = ::open(room_.name().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  { const NamesLock lock(open(), briefly()); }
  ::close(held);
}

TEST_F(NamesLockTest, OtherUsersCannotTakeIt) {
  if (!test::can_be_other_user()) GTEST_SKIP() << test::kNoOtherUser;
  ASSERT_EQ(::chmod(room_.name().c_str(), 0777), 0);
  const NamesLock lock(open(), briefly());
  EXPECT_EQ(test::as_other_user([&] { return ::open(file_.c_str(), O_RDONLY) < 0 && errno == EACCES ? 0 : 1; }), 0);
  // The other user sees that it is held.
  EXPECT_EQ(
      test::as_other_user([&] {
        return refusal_of([&] { const NamesLock second(open(), {100ms, {}}); }).code == ErrorCode::kFileLocked ? 0 : 1;
      }),
      0);
}

TEST_F(NamesLockTest, NeitherFollowsALinkNorWaitsForAFifo) {
  test::write_whole(room_ / "secret", {});
  std::filesystem::create_symlink("secret", file_);
  EXPECT_EQ(refusal_of([&] { const NamesLock lock(open(), briefly()); }).code, ErrorCode::kOpenFailed);
  std::filesystem::remove(file_);
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  EXPECT_THAT(refusal_of([&] { const NamesLock lock(open(), briefly()); }).message, HasSubstr("not a lock file"));
  EXPECT_TRUE(std::filesystem::exists(file_)) << "not ours to remove";
}

TEST_F(NamesLockTest, LeavesWhatHasTakenItsName) {
  {
    const NamesLock lock(open(), briefly());
    std::filesystem::rename(file_, room_ / "moved");
    test::write_whole(file_, {});
  }
  EXPECT_THAT(room_.entries(), ElementsAre(NamesLock::kName, "moved"));
}

TEST_F(NamesLockTest, HasNoEffectWhereFilesCannotBeLocked) {
  const test::SystemCalls calls(
      [](const test::Call& call) { return call.function == "flock" ? test::Reply::failure(ENOLCK) : true; });
  const NamesLock first(open(), briefly());
  const NamesLock second(open(), briefly());
}

TEST_F(NamesLockTest, KeepsFinishedFilesThatCannotGetTheirNames) {
  const auto directory = open();
  {
    AtomicFileIn a(directory, room_ / "a", "auto", AtomicFile::Existing::kReplace);
    AtomicFileIn b(directory, room_ / "b", "auto", AtomicFile::Existing::kReplace);
    a.finish();
    b.finish();
    const NamesLock lock(directory, briefly());
    const std::vector<AtomicFile*> finished = {&a, &b};
    const auto refused = refusal_of([&] { NamesLock::take_or_keep(open(), briefly(), finished); });
    EXPECT_EQ(refused.code, ErrorCode::kFileLocked);
    EXPECT_THAT(refused.message,
                HasSubstr("the 2 new files are complete and stay as NAME.tmp-XXXXXXXX, such as b.tmp-"));
  }
  EXPECT_THAT(room_.entries(), ElementsAre(HasSubstr("a.tmp-"), HasSubstr("b.tmp-")));
}

TEST_F(NamesLockTest, SaysThatSomethingElseHasToBeRemoved) {
  const auto expect_refused = [&] {
    const NamesRefusal refusal = refusal_of([&] { NamesLock(open(), briefly()); });
    EXPECT_EQ(refusal.code, ErrorCode::kOpenFailed);
    EXPECT_THAT(refusal.message, HasSubstr(file_ + " is not a lock file, but has its name: remove it"));
  };
  ASSERT_EQ(::mkfifo(file_.c_str(), 0600), 0);
  expect_refused();
  std::filesystem::remove(file_);
  std::filesystem::create_directory(file_);
  expect_refused();
  std::filesystem::remove(file_);
  std::filesystem::create_symlink("nowhere", file_);
  expect_refused();
}

}  // namespace
}  // namespace tzmark
