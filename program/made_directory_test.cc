// Tests of how made directories are removed: links, depth, names that stand in the way, and directories of others.
#include "program/made_directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <fstream>
#include <string>
#include <system_error>

#include "testing/faults/system_calls.h"
#include "testing/files/other_user.h"
#include "testing/files/test_directory.h"

namespace tzmark {
namespace {

namespace fs = std::filesystem;

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void write(const fs::path& file) { std::ofstream(file) << "content"; }

// Returns what the action throws, or "".
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
    return "";
  } catch (const std::system_error& error) {
    return error.what();
  }
}

class MadeDirectoryTest : public ::testing::Test {
 protected:
  fs::path top() const { return top_.name(); }
  const fs::path& made() const { return made_.path(); }
  // Of a third user, who must lose nothing here.
  fs::path make_foreign() const {
    const fs::path foreign = top() / "foreign";
    fs::create_directories(foreign / "below");
    write(foreign / "below/file");
    fs::permissions(foreign, fs::perms::owner_all);
    return foreign;
  }

  const test::TestDirectory top_;
  MadeDirectory made_{top_.name(), "made-"};
};

TEST_F(MadeDirectoryTest, IsForItsOwnerAlone) {
  EXPECT_THAT(made().filename().string(), StartsWith("made-"));
  EXPECT_EQ(fs::status(made()).permissions(), fs::perms::owner_all);
  made_.remove();
  EXPECT_FALSE(fs::exists(made()));
}

TEST_F(MadeDirectoryTest, ParentThatDoesNotExistIsAnError) {
  EXPECT_THAT(error_of([] { const MadeDirectory none("/nonexistent/parent", "a"); }),
              EndsWith("/nonexistent/parent: No such file or directory"));
}

TEST_F(MadeDirectoryTest, RemovesWhatIsDeeperThanDescriptorsReach) {
  int at = ::open(made().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (int i = 0; i < 3000; ++i) {
    ASSERT_EQ(::mkdirat(at, "d", 0700), 0);
    const int below = ::openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ::close(at);
    at = below;
  }
  ::close(at);
  made_.remove();
  EXPECT_FALSE(fs::exists(made()));
}

TEST_F(MadeDirectoryTest, RemovesMoreEntriesThanOneCallLists) {
  fs::create_directory(made() / "below");
  for (int i = 0; i < 2000; ++i) write(made() / (i % 2 == 0 ? "" : "below") / std::to_string(i));
  made_.clear();
  EXPECT_TRUE(fs::is_empty(made()));
  made_.remove();
  EXPECT_FALSE(fs::exists(made()));
}

TEST_F(MadeDirectoryTest, RemovesLinksAndNotWhatTheyLeadTo) {
  const fs::path foreign = make_foreign();
  fs::create_directory(made() / "a");
  fs::create_directory_symlink(foreign, made() / "a/link");
  fs::create_directory_symlink(foreign, made() / "link");
  ASSERT_EQ(::mkfifo((made() / "a/fifo").c_str(), 0600), 0);
  made_.remove();
  EXPECT_FALSE(fs::exists(made()));
  EXPECT_TRUE(fs::exists(foreign / "below/file"));
}

TEST_F(MadeDirectoryTest, RemovesWhatIsInTheWayOfItself) {
  write(made() / "lifted-0");
  fs::create_directories(made() / "lifted-1/lifted-0/a/b/c");
  fs::create_directories(made() / "z/a/b/c");
  write(made() / "z/a/b/file");
  made_.remove();
  EXPECT_FALSE(fs::exists(made()));
}

// What another process keeps filling would be removed for ever.
TEST_F(MadeDirectoryTest, RemovalHasAnEnd) {
  write(made() / "file");
  EXPECT_THAT(error_of([&] { made_.clear(std::chrono::seconds(0)); }),
              EndsWith("/file cannot be removed: Device or resource busy"));
  EXPECT_TRUE(fs::exists(made() / "file"));
  made_.remove();
}

TEST_F(MadeDirectoryTest, LeavesWhatHasTakenItsName) {
  const fs::path foreign = make_foreign();
  write(made() / "own");
  fs::rename(made(), top() / "moved");
  fs::rename(foreign, made());
  EXPECT_THAT(error_of([&] { made_.remove(); }), HasSubstr("another process has renamed it or removed it"));
  EXPECT_TRUE(fs::exists(made() / "below/file"));
  EXPECT_TRUE(fs::is_empty(top() / "moved")) << "its own content is removed, wherever it is";
}

TEST_F(MadeDirectoryTest, LeavesAnEmptyDirectoryThatHasTakenItsName) {
  fs::rename(made(), top() / "moved");
  fs::create_directory(made());
  EXPECT_NE(error_of([&] { made_.remove(); }), "");
  EXPECT_TRUE(fs::exists(made()));
}

// Anyone can rename in a directory that all can write to.
TEST_F(MadeDirectoryTest, LeavesTheDirectoryOfAThirdUser) {
  if (!test::can_be_other_user()) GTEST_SKIP() << test::kNoOtherUser;
  const fs::path foreign = make_foreign();
  ASSERT_EQ(::chown(foreign.c_str(), 12345, 12345), 0);
  ASSERT_EQ(::chmod(top_.name().c_str(), 0777), 0);
  const std::string moved = top_ / "moved";
  const int result = test::as_other_user([&] {
    return ::rename(made().c_str(), moved.c_str()) == 0 && ::rename(foreign.c_str(), made().c_str()) == 0 ? 0 : 1;
  });
  ASSERT_EQ(result, 0);
  EXPECT_NE(error_of([&] { made_.remove(); }), "");
  EXPECT_TRUE(fs::exists(made() / "below/file"));
}

// The moment between making a directory and opening it.
TEST_F(MadeDirectoryTest, RefusesADirectoryThatTakesItsPlaceAtOnce) {
  if (!test::can_be_other_user()) GTEST_SKIP() << test::kNoOtherUser;
  for (const bool is_empty : {false, true}) {
    const fs::path foreign = top() / "foreign";
    fs::create_directory(foreign);
    if (!is_empty) write(foreign / "file");
    // Of this user if it is not empty.
    if (is_empty) {
      ASSERT_EQ(::chown(foreign.c_str(), 12345, 12345), 0);
    }
    fs::path taken;
    const test::SystemCalls calls([&](const test::Call& call) {
      if (call.function == "openat" && taken.empty() && call.path.find("/second-") != std::string::npos) {
        taken = call.path;
        fs::rename(taken, top() / "moved");
        fs::rename(foreign, taken);
      }
      return true;
    });
    EXPECT_THAT(error_of([&] { const MadeDirectory second(top(), "second-"); }),
                HasSubstr("another process has replaced the new directory"));
    EXPECT_TRUE(fs::exists(taken));
    EXPECT_EQ(fs::is_empty(taken), is_empty);
    fs::remove_all(taken);
    fs::remove(top() / "moved");
  }
}

// Gives up the rights of root, for which nothing is forbidden.
TEST_F(MadeDirectoryTest, RemovesWhatForbidsIt) {
  const auto check = [&](const fs::path& parent) {
    for (const mode_t mode : {0U, 0400U, 0300U}) {
      MadeDirectory made(parent, "a");
      fs::create_directories(made.path() / "a/b/c");
      write(made.path() / "a/b/file");
      for (const char* const name : {"a/b/c", "a/b", "a", ""}) {
        if (::chmod((made.path() / name).c_str(), mode) != 0) return 1;
      }
      made.remove();
      if (fs::exists(made.path())) return 2;
    }
    return 0;
  };
  if (!test::can_be_other_user()) {
    EXPECT_EQ(check(top()), 0);
    return;
  }
  ASSERT_EQ(::chown(top_.name().c_str(), test::kOtherUser, test::kOtherUser), 0);
  EXPECT_EQ(test::as_other_user([&] { return check(top()); }), 0);
}

}  // namespace
}  // namespace tzmark
