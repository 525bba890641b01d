// Tests of what a name for a result may lead to.
#include "program/output_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "testing/faults/system_calls.h"
#include "testing/files/other_user.h"
#include "testing/files/test_directory.h"

namespace tzmark {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// Returns what the action throws, or "".
template <typename Action>
std::string reason_of(const Action& action) {
  try {
    action();
    return "";
  } catch (const std::system_error& error) {
    return error.what();
  }
}

std::string text_of(const std::string& name) {
  const test::Bytes bytes = test::read_whole(name);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

mode_t mode_of(const std::string& name) {
  struct stat status {};
  return ::stat(name.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

class OutputFileTest : public ::testing::Test {
 protected:
  OutputFileTest() { ::umask(022); }
  // Returns the error of both functions, which must agree.
  std::string refusal() const {
    const std::string checked = reason_of([&] { check_output_file(name_); });
    const std::string written = reason_of([&] { write_output_file(name_, "new"); });
    EXPECT_EQ(checked, written);
    EXPECT_THAT(directory_.entries(), ::testing::Not(::testing::Contains(::testing::StartsWith(".tzmark"))));
    return written;
  }

  const test::TestDirectory directory_;
  const std::string name_ = directory_ / "out";
};

TEST_F(OutputFileTest, CreatesAndReplaces) {
  EXPECT_EQ(refusal(), "");
  EXPECT_EQ(text_of(name_), "new");
  EXPECT_EQ(mode_of(name_), 0644U);
  write_output_file(name_, std::string(1 << 20, 'x'));
  EXPECT_EQ(fs::file_size(name_), 1U << 20);
  write_output_file(name_, "");
  EXPECT_EQ(fs::file_size(name_), 0U);
  EXPECT_THAT(directory_.entries(), ElementsAre("out"));
}

TEST_F(OutputFileTest, KeepsTheModeOfTheReplacedFile) {
  for (const mode_t mode : {0600U, 0664U, 0444U}) {
    ASSERT_EQ(::chmod((write_output_file(name_, "old"), name_.c_str()), mode), 0);
    write_output_file(name_, "new");
    EXPECT_EQ(mode_of(name_), mode);
  }
}

// Others may have put it there, and root could write where it leads.
TEST_F(OutputFileTest, ReplacesALinkAndNotWhatItLeadsTo) {
  test::write_whole(directory_ / "secret", std::as_bytes(std::span("old", 3)));
  fs::create_symlink("secret", name_);
  EXPECT_EQ(refusal(), "");
  EXPECT_FALSE(fs::is_symlink(name_));
  EXPECT_EQ(text_of(name_), "new");
  EXPECT_EQ(text_of(directory_ / "secret"), "old");
  fs::remove(name_);
  fs::create_symlink("nothing", name_);
  EXPECT_EQ(refusal(), "");
  EXPECT_FALSE(fs::exists(directory_ / "nothing"));
}

TEST_F(OutputFileTest, LeavesOtherNamesOfAFileAlone) {
  test::write_whole(directory_ / "secret", std::as_bytes(std::span("old", 3)));
  fs::create_hard_link(directory_ / "secret", name_);
  write_output_file(name_, "new");
  EXPECT_EQ(text_of(directory_ / "secret"), "old");
}

TEST_F(OutputFileTest, RefusesWhatIsNoFile) {
  fs::create_directory(name_);
  EXPECT_THAT(refusal(), EndsWith("/out: cannot be written: Is a directory"));
  fs::remove(name_);
  fs::create_symlink("/dev/null", name_);
  EXPECT_THAT(refusal(), HasSubstr("a link to something else than a file"));
  fs::remove(name_);
  fs::create_directory_symlink("/", name_);
  EXPECT_THAT(refusal(), EndsWith("Is a directory"));
  fs::remove(name_);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(name_, std::begin(address.sun_path));
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
  EXPECT_THAT(refusal(), HasSubstr("neither a file, nor a FIFO, nor a character device"));
}

TEST_F(OutputFileTest, RefusesWhereNothingCanBe) {
  EXPECT_THAT(reason_of([&] { check_output_file(directory_ / "none/out"); }), EndsWith("No such file or directory"));
  EXPECT_THAT(reason_of([&] { check_output_file(directory_.name() + "/"); }), EndsWith("Is a directory"));
  EXPECT_THAT(reason_of([&] { check_output_file(""); }), EndsWith("Is a directory"));
  write_output_file(name_, "file");
  EXPECT_THAT(reason_of([&] { check_output_file(name_ + "/below"); }), EndsWith("Not a directory"));
}

TEST_F(OutputFileTest, WritesToDevicesAndDescriptors) {
  EXPECT_EQ(reason_of([] { check_output_file("/dev/null"); }), "");
  EXPECT_EQ(reason_of([] { write_output_file("/dev/null", "new"); }), "");
  struct stat status {};
  ASSERT_EQ(::stat("/dev/null", &status), 0);
  EXPECT_TRUE(S_ISCHR(status.st_mode));
  EXPECT_THAT(reason_of([] { write_output_file("/dev/full", "new"); }), EndsWith("No space left on device"));
  // As of a shell's >(command).
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string number = std::to_string(ends[1]);
  for (const std::string& name : {"/dev/fd/" + number, "/proc/self/fd/" + number}) {
    EXPECT_EQ(reason_of([&] { check_output_file(name); }), "");
    write_output_file(name, "new");
    std::array<char, 8> read{};
    EXPECT_EQ(::read(ends[0], read.data(), read.size()), 3);
  }
  EXPECT_THAT(reason_of([&] { check_output_file("/dev/fd/" + std::to_string(ends[0])); }),
              EndsWith("Bad file descriptor"));
  ::close(ends[0]);
  EXPECT_THAT(reason_of([&] { write_output_file("/dev/fd/" + number, "new"); }), EndsWith("Broken pipe"));
  ::close(ends[1]);
  EXPECT_THAT(reason_of([&] { check_output_file("/dev/fd/" + number); }), EndsWith("Bad file descriptor"));
}

TEST_F(OutputFileTest, WritesToAFifoThatIsRead) {
  ASSERT_EQ(::mkfifo(name_.c_str(), 0600), 0);
  const std::string content(1 << 20, 'x');
  std::size_t read_bytes = 0;
  std::thread reader([&] {
    // A reader that comes a little late.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const int fifo = ::open(name_.c_str(), O_RDONLY);
    std::array<char, 4096> piece{};
    for (ssize_t got = 0; (got = ::read(fifo, piece.data(), piece.size())) > 0;) read_bytes += got;
    ::close(fifo);
  });
  EXPECT_EQ(reason_of([&] { check_output_file(name_); }), "");
  EXPECT_EQ(reason_of([&] { write_output_file(name_, content); }), "");
  reader.join();
  EXPECT_EQ(read_bytes, content.size());
}

TEST_F(OutputFileTest, DoesNotWaitForEverForTheReaderOfAFifo) {
  ASSERT_EQ(::mkfifo(name_.c_str(), 0600), 0);
  EXPECT_THAT(reason_of([&] { write_output_file(name_, "new"); }), HasSubstr("no process reads this FIFO"));
}

TEST_F(OutputFileTest, RefusesTheFifoOfAnotherUser) {
  if (!test::can_be_other_user()) GTEST_SKIP() << test::kNoOtherUser;
  ASSERT_EQ(::mkfifo(name_.c_str(), 0666), 0);
  ASSERT_EQ(::chown(name_.c_str(), test::kOtherUser, test::kOtherUser), 0);
  EXPECT_THAT(refusal(), HasSubstr("a FIFO of another user"));
}

TEST_F(OutputFileTest, ChecksThePermissionToReplace) {
  if (!test::can_be_other_user()) GTEST_SKIP() << test::kNoOtherUser;
  write_output_file(name_, "old");
  ASSERT_EQ(::chmod(name_.c_str(), 0666), 0);
  ASSERT_EQ(::chmod(directory_.name().c_str(), 0755), 0);
  const auto is_refused = [&] {
    const std::string error = reason_of([&] { check_output_file(name_); });
    return error.ends_with("Permission denied") && error == reason_of([&] { write_output_file(name_, "new"); }) ? 0 : 1;
  };
  EXPECT_EQ(test::as_other_user(is_refused), 0);
  EXPECT_EQ(text_of(name_), "old");
}

TEST_F(OutputFileTest, FailureKeepsTheOldFile) {
  write_output_file(name_, "old");
  for (const std::string_view function : {"write", "fsync", "renameat", "fchmod"}) {
    const test::SystemCalls calls([&](const test::Call& call) {
      return call.function == function ? test::Reply::failure(EIO) : test::Reply(true);
    });
    EXPECT_THAT(reason_of([&] { write_output_file(name_, "new"); }), EndsWith("Input/output error")) << function;
  }
  EXPECT_EQ(text_of(name_), "old");
  EXPECT_THAT(directory_.entries(), ElementsAre("out"));
}

}  // namespace
}  // namespace tzmark
