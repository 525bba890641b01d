// Child processes: exit status, output, and cleanup.
#include "harness/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "testing/files/test_directory.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using std::chrono::milliseconds;

CommandResult shell(const std::string& script, milliseconds timeout = std::chrono::seconds(20)) {
  return run_command({"sh", "-c", script}, timeout);
}

void expect_no_child() {
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Process, SaysHowItEnded) {
  EXPECT_EQ(shell("exit 0").end, "");
  EXPECT_EQ(shell("exit 7").end, "exit status 7");
  EXPECT_EQ(shell("kill -TERM $$").end, "signal 15");
  expect_no_child();
}

TEST(Process, KeepsWhatItSaid) {
  const CommandResult result = shell("echo one; echo two >&2; echo three; echo four >&2");
  EXPECT_EQ(result.output, "one\nthree\n");
  EXPECT_EQ(result.error_tail, "two four");
}

TEST(Process, KeepsTheEndOfALongStory) {
  const CommandResult result = shell("i=0; while [ $i -lt 500 ]; do echo line $i >&2; i=$((i+1)); done");
  EXPECT_LE(result.error_tail.size(), 2000u);
  EXPECT_THAT(result.error_tail, testing::EndsWith("line 499"));
}

TEST(Process, HasNoInput) { EXPECT_EQ(shell("cat").output, ""); }

TEST(Process, IsKilledAtItsDeadlineWithAllItStarted) {
  const test::TestDirectory directory;
  const auto begin = Clock::now();
  const CommandResult result = shell(
      "sleep 60 & echo $! > " + directory / "pid" + "; trap '' TERM; while :; do sleep 1; done", milliseconds(300));
  EXPECT_EQ(result.end, "timed out after 0.3 s");
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(20));
  const auto text = test::read_whole(directory / "pid");
  const int grandchild = std::stoi(std::string(reinterpret_cast<const char*>(text.data()), text.size()));
  // The grandchild is killed with its group; init may take a moment to reap it.
  bool gone = false;
  for (int i = 0; i < 500 && !gone; ++i) {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid;
    std::string name;
    std::string state;
    gone = !(stat >> pid >> name >> state) || state == "Z";
    ::usleep(10'000);
  }
  EXPECT_TRUE(gone);
  expect_no_child();
}

TEST(Process, AbsentProgramIsUnavailable) {
  try {
    run_command({"/no/such/program"}, milliseconds(100));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_THAT(error.message(), testing::HasSubstr("/no/such/program"));
  }
  expect_no_child();
}

TEST(Process, ChildEndsWithItsObject) {
  const OutputFile output;
  pid_t pid = -1;
  {
    Child child({"sleep", "60"}, STDIN_FILENO, output.descriptor(), output.descriptor());
    pid = child.pid();
    EXPECT_FALSE(child.wait_until(Clock::now() + milliseconds(10)));
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
  expect_no_child();
}

TEST(Process, EndIsToldAgain) {
  const OutputFile output;
  Child child({"false"}, STDIN_FILENO, output.descriptor(), output.descriptor());
  EXPECT_EQ(child.wait_until(Clock::now() + std::chrono::seconds(20)), "exit status 1");
  EXPECT_EQ(child.wait_until(Clock::now()), "exit status 1");
}

}  // namespace
}  // namespace tzmark::bench
