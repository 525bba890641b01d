// Tests of the child process runner: limits hold, everything is captured, nothing is left behind.
#include "process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "errors.h"
#include "test_environment.h"

namespace tzmark::conformance {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::Lt;
using ::testing::StartsWith;

const std::atomic<bool> kNotCancelled = false;

ProcessResult shell(const std::string& script, const ProcessLimits& limits = {}) {
  return run_process({"/bin/sh", "-c", script}, limits, kNotCancelled);
}

ProcessResult python(const std::string& script, const ProcessLimits& limits = {}) {
  return run_process({python_program(), "-I", "-c", script}, limits, kNotCancelled);
}

// What every test has to leave behind: no child, dead or alive.
class ProcessTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1) << "a child is left";
    EXPECT_EQ(errno, ECHILD);
  }
};

bool is_alive(pid_t pid) { return ::kill(pid, 0) == 0; }

TEST_F(ProcessTest, CapturesOutputAndStatus) {
  const ProcessResult result = shell("echo out; echo err >&2; exit 7");
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.exit_status, 7);
  EXPECT_EQ(result.stdout_text, "out\n");
  EXPECT_EQ(result.stderr_tail, "err\n");
  EXPECT_GT(result.elapsed, 0ns);
}

TEST_F(ProcessTest, KeepsOutputLargerThanAPipe) {
  const ProcessResult result = python("import sys; sys.stdout.write('x' * 5_000_000)");
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.stdout_text, std::string(5'000'000, 'x'));
}

// Every read gives an odd number of bytes, at most half of them, the same ones each time, and all of them in the end.
TEST_F(ProcessTest, AFeedInPiecesMakesReadsShort) {
  const std::string content(3001, 'x');
  Feed feed;
  feed.bytes = std::as_bytes(std::span(content));
  feed.piece_seed = 20;
  const std::vector<std::string> reader = {python_program(), "-I", "-c",
                                           "import os\nwhile data := os.read(0, 100000): print(len(data))"};
  const ProcessResult result = run_process(reader, {}, kNotCancelled, &feed);
  EXPECT_EQ(result.stdin_taken_bytes, content.size());
  std::istringstream lines(result.stdout_text);
  std::size_t total_bytes = 0;
  std::size_t reads = 0;
  for (std::size_t bytes = 0; lines >> bytes; ++reads) {
    EXPECT_LE(bytes, content.size() / 2);
    total_bytes += bytes;
    EXPECT_TRUE(bytes % 2 == 1 || total_bytes == content.size()) << bytes;
  }
  EXPECT_EQ(total_bytes, content.size());
  EXPECT_GT(reads, 2u);
  EXPECT_EQ(run_process(reader, {}, kNotCancelled, &feed).stdout_text, result.stdout_text);
  feed.piece_seed = 21;
  EXPECT_NE(run_process(reader, {}, kNotCancelled, &feed).stdout_text, result.stdout_text);
}

TEST_F(ProcessTest, StdinIsEmpty) { EXPECT_EQ(shell("cat; echo end").stdout_text, "end\n"); }

TEST_F(ProcessTest, PassesArgumentsUntouched) {
  EXPECT_EQ(run_process({"/usr/bin/printf", "%s|", "a b", "", "$HOME", "*"}, {}, kNotCancelled).stdout_text,
            "a b||$HOME|*|");
}

TEST_F(ProcessTest, NamesTheSignal) {
  const ProcessResult result = shell("kill -SEGV $$");
  EXPECT_EQ(result.end, ProcessEnd::kSignaled);
  EXPECT_EQ(result.signal, SIGSEGV);
}

TEST_F(ProcessTest, RefusesProgramsThatCannotStart) {
  EXPECT_THROW(run_process({"/nonexistent/program"}, {}, kNotCancelled), EnvironmentError);
  EXPECT_THROW(run_process({"/etc/passwd"}, {}, kNotCancelled), EnvironmentError);
}

TEST_F(ProcessTest, KillsWhatRunsTooLong) {
  const ProcessResult result = shell("trap '' TERM; echo begun; sleep 600", {.elapsed_max = 200ms});
  EXPECT_EQ(result.end, ProcessEnd::kTimedOut);
  EXPECT_EQ(result.stdout_text, "begun\n");
  EXPECT_GE(result.elapsed, 200ms);
  EXPECT_LT(result.elapsed, 5s);
}

TEST_F(ProcessTest, KillsWhatHangsBehindClosedOutput) {
  EXPECT_EQ(shell("exec >&- 2>&-; sleep 600", {.elapsed_max = 200ms}).end, ProcessEnd::kTimedOut);
}

TEST_F(ProcessTest, KillsTheWholeGroup) {
  const ProcessResult result = shell("sleep 600 & echo $!; wait", {.elapsed_max = 200ms});
  EXPECT_EQ(result.end, ProcessEnd::kTimedOut);
  EXPECT_FALSE(is_alive(std::stoi(result.stdout_text)));
}

TEST_F(ProcessTest, DoesNotWaitForWhatIsLeftBehind) {
  const ProcessResult result = shell("sleep 600 & echo $!");
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_LT(result.elapsed, 5s);
  EXPECT_FALSE(is_alive(std::stoi(result.stdout_text)));
}

TEST_F(ProcessTest, KillsAMemoryHog) {
  const ProcessResult result = python("x = [b'1' * (16 << 20) for _ in range(4096)]", {.rss_max_bytes = 200u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kMemoryBroken);
  EXPECT_GT(result.rss_peak_bytes, 200u << 20);
  EXPECT_LT(result.rss_peak_bytes, 4ull << 30) << "the machine has to survive";
}

TEST_F(ProcessTest, SeesAMemoryPeakThatIsOver) {
  const ProcessResult result = python("x = b'1' * (300 << 20); del x; print('done')", {.rss_max_bytes = 200u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kMemoryBroken);
}

TEST_F(ProcessTest, SeesTheMemoryOfGrandchildren) {
  const ProcessResult result =
      shell(python_program() + " -I -c \"import time; x = b'1' * (300 << 20); time.sleep(600)\"; true",
            {.elapsed_max = 30s, .rss_max_bytes = 200u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kMemoryBroken);
}

TEST_F(ProcessTest, DoesNotCountItsOwnMemory) {
  const std::string ballast(200u << 20, 'x');
  EXPECT_THAT(shell("exit 0").rss_peak_bytes, Lt(64u << 20)) << ballast.size();
}

TEST_F(ProcessTest, BoundsTheMemoryOfSmallProcesses) {
  EXPECT_GT(shell("exit 0").rss_bound_bytes, 100u << 10);
  const ProcessResult result = shell("sleep 0.05");
  EXPECT_GT(result.rss_peak_bytes, 0u);
  EXPECT_GE(result.rss_bound_bytes, result.rss_peak_bytes);
}

TEST_F(ProcessTest, AllowsMemoryBelowTheLimit) {
  const ProcessResult result = python("x = b'1' * (100 << 20); print('done')", {.rss_max_bytes = 200u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_GT(result.rss_peak_bytes, 100u << 20);
}

TEST_F(ProcessTest, KillsAFloodOfOutput) {
  const ProcessResult result = shell("yes", {.elapsed_max = 60s, .stdout_max_bytes = 1u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kOutputBroken);
  EXPECT_EQ(result.stdout_text.size(), (1u << 20) + 1);
}

TEST_F(ProcessTest, AllowsExactlyTheMaximumOfOutput) {
  const std::string script = "head -c 1048576 /dev/zero";
  EXPECT_EQ(shell(script, {.stdout_max_bytes = 1u << 20}).end, ProcessEnd::kExited);
  EXPECT_EQ(shell(script, {.stdout_max_bytes = (1u << 20) - 1}).end, ProcessEnd::kOutputBroken);
}

TEST_F(ProcessTest, KeepsTheEndOfStderr) {
  const ProcessResult result = shell("seq 100000 >&2", {.stderr_tail_max_bytes = 100});
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.stderr_tail.size(), 100u);
  EXPECT_THAT(result.stderr_tail, EndsWith("99999\n100000\n"));
}

TEST_F(ProcessTest, StopsWhenCancelled) {
  std::atomic<bool> cancelled = false;
  std::jthread canceller([&] {
    std::this_thread::sleep_for(100ms);
    cancelled = true;
  });
  EXPECT_EQ(run_process({"/bin/sleep", "600"}, {}, cancelled).end, ProcessEnd::kCancelled);
}

TEST_F(ProcessTest, RunsInSeveralThreads) {
  std::vector<std::jthread> threads;
  threads.reserve(8);
  std::atomic<int> right = 0;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i, &right] {
      for (int round = 0; round < 10; ++round) {
        const std::string text = std::to_string(i * 100 + round);
        right += shell("sleep 600 & echo " + text).stdout_text == text + "\n";
      }
    });
  }
  threads.clear();
  EXPECT_EQ(right, 80);
}

// A shell script that serves; every case is one line in and what it does with it.
Server serving(const std::string& loop_body) {
  return Server({"/bin/sh", "-c", "while read -r line; do " + loop_body + "; done"}, kNotCancelled);
}

TEST_F(ProcessTest, ServerAnswersLineByLine) {
  Server server = serving("echo \"got $line\"; echo log >&2");
  for (const char* line : {"one", "two", ""}) {
    const ProcessResult result = server.exchange(line, {});
    EXPECT_EQ(result.end, ProcessEnd::kAnswered);
    EXPECT_EQ(result.stdout_text, std::string("got ") + line);
    EXPECT_THAT(result.rss_peak_bytes, ::testing::Gt(0u));
  }
  EXPECT_TRUE(server.ready());
  EXPECT_GT(server.rss_bytes(), 0u);
}

TEST_F(ProcessTest, ServerTakesLongLines) {
  Server server = serving("echo ${#line}");
  EXPECT_EQ(server.exchange(std::string(300'000, 'x'), {}).stdout_text, "300000");
}

TEST_F(ProcessTest, ServerThatEndsIsNoServerAnyMore) {
  Server server = serving("[ \"$line\" = die ] && exit 7; echo ok");
  EXPECT_EQ(server.exchange("live", {}).end, ProcessEnd::kAnswered);
  const ProcessResult result = server.exchange("die", {});
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.exit_status, 7);
  EXPECT_FALSE(server.ready());
  EXPECT_EQ(server.rss_bytes(), 0u);
}

TEST_F(ProcessTest, ServerLimitsCountFromTheQuestion) {
  Server server = serving("sleep $line; echo ok");
  std::this_thread::sleep_for(500ms);
  EXPECT_EQ(server.exchange("0.2", {.elapsed_max = 10s}).end, ProcessEnd::kAnswered);
  EXPECT_EQ(server.exchange("60", {.elapsed_max = 300ms}).end, ProcessEnd::kTimedOut);
  EXPECT_FALSE(server.ready());
}

// The kernel's peak is forgotten between questions, and seen even if the memory was given back before the answer.
TEST_F(ProcessTest, ServerMemoryIsThatOfOneQuestion) {
  Server server(
      {python_program(), "-Ic",
       "import sys\nfor line in sys.stdin:\n  x = b'1' * (int(line) << 20)\n  del x\n  print('ok', flush=True)"},
      kNotCancelled);
  EXPECT_EQ(server.exchange("200", {}).end, ProcessEnd::kAnswered);
  const ProcessResult small = server.exchange("1", {});
  EXPECT_THAT(small.rss_peak_bytes, Lt(150u << 20));
  EXPECT_EQ(server.exchange("300", {.rss_max_bytes = 200u << 20}).end, ProcessEnd::kMemoryBroken);
}

TEST_F(ProcessTest, ServerOutputIsLimited) {
  Server server = serving("yes | tr -d '\\n'");
  EXPECT_EQ(server.exchange("go", {.stdout_max_bytes = 1u << 20}).end, ProcessEnd::kOutputBroken);
}

TEST_F(ProcessTest, ServerThatIsNotAskedAnyMoreIsEnded) {
  std::string pid;
  {
    Server server = serving("sleep 600 & echo $!");
    pid = server.exchange("go", {}).stdout_text;
    EXPECT_TRUE(is_alive(std::stoi(pid)));
  }
  EXPECT_FALSE(is_alive(std::stoi(pid)));
}

TEST_F(ProcessTest, ChildHasDefaultSignals) {
  EXPECT_THAT(shell("yes | head -n 1; echo end").stdout_text, StartsWith("y\nend")) << "SIGPIPE is not ignored";
}

}  // namespace
}  // namespace tzmark::conformance
