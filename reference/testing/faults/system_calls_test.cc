// Tests of the hook that is asked before system calls.
#include "testing/faults/system_calls.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <vector>

#include "os/directory.h"
#include "testing/files/test_directory.h"

namespace tzmark::test {
namespace {

using ::testing::ElementsAre;

class SystemCallsTest : public ::testing::Test {
 protected:
  const TestDirectory directory_;
  const Directory opened_{directory_.name()};
};

TEST_F(SystemCallsTest, AreDescribedWithWholePaths) {
  std::vector<std::string> seen;
  const SystemCalls calls([&](const Call& call) {
    seen.push_back(call.what);
    return true;
  });
  {
    const Descriptor file = opened_.create("a", 0600);
    ASSERT_EQ(::pwrite(file.get(), "12", 2, 5), 2);
    ASSERT_EQ(::ftruncate(file.get(), 4), 0);
    ASSERT_EQ(::fsync(file.get()), 0);
  }
  opened_.rename("a", "b");
  ASSERT_EQ(::linkat(opened_.get(), "b", opened_.get(), "c", 0), 0);
  ASSERT_EQ(::renameat2(opened_.get(), "b", AT_FDCWD, (directory_ / "c").c_str(), RENAME_EXCHANGE), 0);
  EXPECT_TRUE(opened_.sync());
  ASSERT_TRUE(opened_.has("c"));
  ASSERT_TRUE(opened_.remove_file("c"));
  ASSERT_EQ(::mkdir((directory_ / "d").c_str(), 0700), 0);
  ASSERT_EQ(::unlinkat(opened_.get(), "d", AT_REMOVEDIR), 0);
  const std::string a = directory_ / "a", b = directory_ / "b", c = directory_ / "c", d = directory_ / "d";
  EXPECT_THAT(seen, ElementsAre("create " + a, "write " + a, "resize " + a, "sync " + a, "rename " + a + " " + b,
                                "link " + b + " " + c, "exchange " + b + " " + c, "sync directory " + directory_.name(),
                                "look at " + c, "remove " + c, "make " + d, "remove " + d));
}

TEST_F(SystemCallsTest, TellWhatTheyDo) {
  const Descriptor file = opened_.create("a", 0600);
  struct stat status {};
  ASSERT_EQ(::fstat(file.get(), &status), 0);
  std::vector<std::string> written;
  const SystemCalls calls([](const Call&) { return true; },
                          [&](const Call& call, std::int64_t result) {
                            EXPECT_EQ(call.inode, status.st_ino);
                            EXPECT_EQ(call.offset, 5U);
                            EXPECT_EQ(result, 3);
                            written.emplace_back(reinterpret_cast<const char*>(call.content.data()), call.bytes);
                          });
  ASSERT_EQ(::pwrite(file.get(), "123", 3, 5), 3);
  ASSERT_EQ(::pwrite(-1, "x", 1, 0), -1);
  EXPECT_THAT(written, ElementsAre("123"));
}

TEST_F(SystemCallsTest, AreLeftOutOrFailOrAreReplaced) {
  const Descriptor file = opened_.create("a", 0600);
  int replaced = 0;
  const SystemCalls calls([&](const Call& call) -> Reply {
    if (call.function == "pwrite") return false;
    if (call.function == "fallocate") return Reply::failure(EOPNOTSUPP);
    if (call.function == "ftruncate") {
      return Reply::instead([&] { return ::ftruncate(file.get(), 100 + ++replaced); });
    }
    return true;
  });
  EXPECT_EQ(::pwrite(file.get(), "123", 3, 5), 3);
  EXPECT_EQ(::fallocate(file.get(), 0, 0, 10), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(std::filesystem::file_size(directory_ / "a"), 0U);
  EXPECT_EQ(::ftruncate(file.get(), 10), 0);
  EXPECT_EQ(std::filesystem::file_size(directory_ / "a"), 101U);
}

TEST_F(SystemCallsTest, TellOfHalf) {
  const Descriptor file = opened_.create("a", 0600);
  const SystemCalls calls([](const Call&) { return Reply::half(); });
  EXPECT_EQ(::pwrite(file.get(), "1234", 4, 0), 2);
  EXPECT_EQ(std::filesystem::file_size(directory_ / "a"), 4U);
}

TEST_F(SystemCallsTest, AskTheNewestHookFirst) {
  std::vector<std::string> asked;
  const SystemCalls outer([&](const Call& call) -> Reply {
    asked.push_back("outer " + std::string(call.function));
    return call.function == "ftruncate" ? Reply::failure(ENOSPC) : Reply(true);
  });
  const Descriptor file = opened_.create("a", 0600);
  {
    const SystemCalls inner([&](const Call& call) -> Reply {
      asked.push_back("inner " + std::string(call.function));
      return call.function != "fsync";
    });
    EXPECT_EQ(::fsync(file.get()), 0);
    EXPECT_EQ(::ftruncate(file.get(), 5), -1);
    EXPECT_EQ(errno, ENOSPC);
  }
  EXPECT_EQ(::fsync(file.get()), 0);
  EXPECT_THAT(asked, ElementsAre("outer openat", "inner fsync", "inner ftruncate", "outer ftruncate", "outer fsync"));
}

TEST_F(SystemCallsTest, ChangeNothingAfterTheirCallerHasDied) {
  write_whole(directory_ / "a", Bytes(1));
  SystemCalls calls([](const Call& call) -> Reply {
    if (call.kind == Call::Kind::kChange) throw std::runtime_error("the power goes");
    return true;
  });
  EXPECT_TRUE(opened_.has("a"));
  EXPECT_FALSE(calls.is_dead());
  // Its declaration says that it never throws.
  EXPECT_EQ(::renameat(opened_.get(), "a", opened_.get(), "b"), -1);
  EXPECT_EQ(errno, EIO);
  EXPECT_TRUE(calls.is_dead());
  EXPECT_EQ(::fsync(opened_.get()), -1);
  EXPECT_EQ(::unlinkat(opened_.get(), "a", 0), -1);
  EXPECT_THAT(directory_.entries(), ElementsAre("a"));
}

}  // namespace
}  // namespace tzmark::test
