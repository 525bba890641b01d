// Tests of the child process runner: limits hold, everything is captured, nothing is left behind.
#include "runner/process.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <thread>

#include "runner/descriptor.h"
#include "runner/directory_tree.h"
#include "runner/errors.h"
#include "runner/scratch_directory.h"
#include "testing/test_environment.h"

namespace tzmark::conformance {
namespace {

using namespace std::chrono_literals;
using ::testing::EndsWith;
using ::testing::Lt;
using ::testing::StartsWith;

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

// Tells how the program itself ended, wherever it has gone.
TEST_F(ProcessTest, SeesTheEndOfWhatLeftItsGroup) {
  for (const char* const leave :
       {"os.setpgid(0, os.getpgid(os.getppid()))", "os.setpgid(0, 0)", "os.fork() or (os.setsid(), time.sleep(600))"}) {
    const std::string script = fmt::format("import os, signal, time\nprint('answer', flush=True)\n{}\n", leave);
    const ProcessResult crashed = python(script + "os.kill(os.getpid(), signal.SIGSEGV)");
    EXPECT_EQ(crashed.end, ProcessEnd::kSignaled) << leave;
    EXPECT_EQ(crashed.signal, SIGSEGV) << leave;
    const ProcessResult failed = python(script + "os._exit(7)");
    EXPECT_EQ(failed.end, ProcessEnd::kExited) << leave;
    EXPECT_EQ(failed.exit_status, 7) << leave;
  }
}

TEST_F(ProcessTest, SeesTheEndWhereSigchldIsIgnored) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const ProcessResult result = shell("exit 7");
  ::signal(SIGCHLD, before);
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.exit_status, 7);
}

TEST_F(ProcessTest, AnUnobservedEndIsLost) {
  const ProcessResult result = python(
      "import os, signal, subprocess, sys\n"
      "print(subprocess.Popen(['/bin/sleep', '600'], start_new_session=True).pid, flush=True)\n"
      "os.kill(os.getppid(), signal.SIGKILL)\n");
  EXPECT_EQ(result.end, ProcessEnd::kLost);
  EXPECT_FALSE(is_alive(std::stoi(result.stdout_text)));
}

// Daemons that a killed keeper leaves: in a session of their own, and without the environment that they were started
// in.
TEST_F(ProcessTest, EndsDaemonsOfAKilledKeeper) {
  const ProcessResult result = python(
      "import os, signal, subprocess\n"
      "keeper = os.getppid()\n"
      "read, write = os.pipe()\n"
      "if os.fork() == 0:\n"
      "  os.setsid()\n"
      "  if os.fork() == 0:\n"
      "    daemon = subprocess.Popen(['/bin/sleep', '600'], env={}, start_new_session=True)\n"
      "    print(os.getpid(), daemon.pid, flush=True)\n"
      "    os.write(write, b'x')\n"
      "    os.execve('/bin/sleep', ['sleep', '600'], {})\n"
      "  os._exit(0)\n"
      "os.read(read, 1)\n"
      "os.kill(keeper, signal.SIGKILL)\n");
  EXPECT_EQ(result.end, ProcessEnd::kLost);
  std::istringstream pids(result.stdout_text);
  pid_t parent = 0;
  pid_t child = 0;
  ASSERT_TRUE(pids >> parent >> child) << result.stderr_tail;
  EXPECT_FALSE(is_alive(parent));
  EXPECT_FALSE(is_alive(child));
}

// A daemon that lowers the limit by which it is marked; any user may.
TEST_F(ProcessTest, EndsDaemonsThatChangeTheirMark) {
  const ProcessResult result = python(
      "import os, resource, signal, subprocess, sys\n"
      "keeper = os.getppid()\n"
      "if os.fork() == 0:\n"
      "  os.setsid()\n"
      "  limit = resource.getrlimit(10)[1] - 1\n"  // RLIMIT_LOCKS
      "  resource.setrlimit(10, (limit, limit))\n"
      "  print(os.getpid(), flush=True)\n"
      "  os.kill(keeper, signal.SIGKILL)\n"
      "  os.execv('/bin/sleep', ['sleep', '600'])\n"
      "os.wait()\n");
  EXPECT_EQ(result.end, ProcessEnd::kLost);
  const pid_t daemon = std::stoi(result.stdout_text);
  EXPECT_FALSE(is_alive(daemon));
  ::kill(daemon, SIGKILL);
  ::waitpid(daemon, nullptr, 0);
}

// A forged notice ends the run at once, so that the keeper may live to tell how the program was killed.
bool is_lost_or_killed(const ProcessResult& result) {
  return result.end == ProcessEnd::kLost || result.end == ProcessEnd::kSignaled;
}

// A script that can forge(keeper): write notices of an end into all that the keeper has open. Its list of children
// refuses them; the script has to go on, since one that ended by an exception would tell its own end.
ProcessResult forger(const std::string& script) {
  return python(
      "import os, signal, struct, time\n"
      "def forge(keeper):\n"
      "  for name in os.listdir(f'/proc/{keeper}/fd'):\n"
      "    try:\n"
      "      with open(f'/proc/{keeper}/fd/{name}', 'wb') as pipe: pipe.write(struct.pack('<?3xiQ', True, 0, 0))\n"
      "    except OSError: pass\n" +
      script);
}

// A status that another one writes into the pipe of the keeper is none.
TEST_F(ProcessTest, AForgedEndIsNone) {
  const ProcessResult result = forger(
      "keeper = os.getppid()\n"
      "time.sleep(0.5)\n"  // until the keeper has closed all but its pipe
      "forge(keeper)\n"
      "os.kill(keeper, signal.SIGKILL)\n"
      "os.kill(os.getpid(), signal.SIGSEGV)\n");
  EXPECT_TRUE(is_lost_or_killed(result)) << result.stderr_tail;
}

// A traced process is reaped by its tracer first, and this one forges the keeper's last word as well.
TEST_F(ProcessTest, EndsWhatTracesItsKeeper) {
  const ProcessResult result = forger(
      "import ctypes\n"
      "libc = ctypes.CDLL(None, use_errno=True)\n"
      "keeper = os.getppid()\n"
      "if os.fork() == 0:\n"
      "  os.setsid()\n"
      "  seized = libc.ptrace(0x4206, keeper, None, None) == 0\n"  // PTRACE_SEIZE
      "  print(int(seized), flush=True)\n"
      "  forge(keeper)\n"
      "  os.kill(keeper, signal.SIGKILL)\n"
      "time.sleep(600)\n");
  if (result.stdout_text == "0\n") GTEST_SKIP() << "a process cannot trace another one here";
  EXPECT_EQ(result.stdout_text, "1\n");
  EXPECT_TRUE(is_lost_or_killed(result)) << result.stderr_tail;
}

// This process may have children that no keeper started.
TEST_F(ProcessTest, LeavesOtherChildrenAlone) {
  const pid_t other = ::fork();
  if (other == 0) {
    ::execl("/bin/sleep", "sleep", "600", nullptr);
    ::_exit(127);
  }
  EXPECT_EQ(python("import os\nos.kill(os.getppid(), 9)").end, ProcessEnd::kLost);
  EXPECT_EQ(::waitpid(other, nullptr, WNOHANG), 0) << "it was killed";
  ::kill(other, SIGKILL);
  EXPECT_EQ(::waitpid(other, nullptr, 0), other);
}

// The children of a shell, too, which nothing ends with it.
TEST_F(ProcessTest, EndsAllWithAStarterThatIsKilled) {
  Pipe answer;
  const pid_t starter = ::fork();
  if (starter == 0) {
    Server server({"/bin/sh", "-c", "read -r line; sleep 600 & echo $! $TMPDIR; wait"}, kNotCancelled);
    const std::string line = server.exchange("", {}).stdout_text;
    const bool written = ::write(answer.write_end.get(), line.data(), line.size()) == static_cast<ssize_t>(line.size());
    ::kill(::getpid(), written ? SIGKILL : SIGTERM);
  }
  std::string line(4096, '\0');
  const ssize_t got = ::read(answer.read_end.get(), line.data(), line.size());
  ASSERT_GT(got, 0);
  line.resize(static_cast<std::size_t>(got));
  // Orphans come to this process, so that it waits for all of them.
  while (::waitpid(-1, nullptr, 0) > 0) {
  }
  EXPECT_FALSE(is_alive(std::stoi(line)));
  // No process was left to remove it.
  std::filesystem::remove_all(line.substr(line.find(' ') + 1));
}

TEST_F(ProcessTest, EndsWhoStopsItsKeeper) {
  const ProcessResult result =
      python("import os, signal\nos.kill(os.getppid(), signal.SIGSTOP)", {.elapsed_max = 500ms});
  EXPECT_EQ(result.end, ProcessEnd::kTimedOut);
}

TEST_F(ProcessTest, KillsWhatLeftItsGroup) {
  const ProcessResult result = shell("setsid sleep 600 & echo $!; exit 3");
  EXPECT_EQ(result.exit_status, 3);
  EXPECT_FALSE(is_alive(std::stoi(result.stdout_text)));
}

// The end of a traced process is told to its tracer first.
TEST_F(ProcessTest, EndsWhatIsTraced) {
  const ProcessResult result = python(
      "import ctypes, os, time\n"
      "libc = ctypes.CDLL(None, use_errno=True)\n"
      "libc.prctl(0x59616d61, ctypes.c_ulong(-1), 0, 0, 0)\n"  // PR_SET_PTRACER, PR_SET_PTRACER_ANY
      "ready, tell = os.pipe()\n"
      "if os.fork() == 0:\n"
      "  os.setsid()\n"
      "  seized = libc.ptrace(0x4206, os.getppid(), None, None) == 0\n"  // PTRACE_SEIZE
      "  os.write(tell, b'1' if seized else b'0')\n"
      "  time.sleep(600)\n"
      "print(os.read(ready, 1).decode(), flush=True)\n",
      {.elapsed_max = 5s});
  if (result.stdout_text == "0\n") GTEST_SKIP() << "a process cannot trace another one here";
  EXPECT_EQ(result.stdout_text, "1\n");
  EXPECT_EQ(result.end, ProcessEnd::kTimedOut);
}

// Looking at each of them for each that is reaped took 26 s here.
TEST_F(ProcessTest, EndsThousandsOfOrphans) {
  const ProcessResult result = python(
      "import os\n"
      "for _ in range(2000): os.posix_spawn('/bin/sleep', ['sleep', '600'], {}, setsid=True)\n"
      "print('done', flush=True)\n"
      "os._exit(7)\n");
  if (result.stdout_text != "done\n") GTEST_SKIP() << "no room for 2000 processes: " << result.stderr_tail;
  EXPECT_EQ(result.exit_status, 7);
}

// Each of them forks and ends at once, so that each killed process already has a successor.
TEST_F(ProcessTest, EndsChainsOfForks) {
  const ProcessResult result = python(
      "import os\n"
      "for _ in range(4):\n"
      "  if os.fork() == 0:\n"
      "    os.setsid()\n"
      "    while True:\n"
      "      if os.fork(): os._exit(0)\n"
      "os._exit(7)\n");
  EXPECT_EQ(result.exit_status, 7);
}

TEST_F(ProcessTest, TemporaryDirectoryIsItsOwnAndGoesWithIt) {
  const std::string script = "mkdir -p $TMPDIR/a/b && ln -s /etc $TMPDIR/a/b/link && chmod 0 $TMPDIR/a && echo $TMPDIR";
  const std::string directory = shell(script).stdout_text;
  EXPECT_NE(directory, shell(script).stdout_text);
  ASSERT_THAT(directory, EndsWith("\n"));
  EXPECT_FALSE(std::filesystem::exists(directory.substr(0, directory.size() - 1)));
  EXPECT_TRUE(std::filesystem::exists("/etc/passwd"));
}

constexpr std::uint64_t kDisk = 16u << 20;

TEST_F(ProcessTest, KillsWhatFillsTheDisk) {
  const ProcessResult result = shell("cat /dev/zero > $TMPDIR/file", {.disk_max_bytes = kDisk});
  EXPECT_EQ(result.end, ProcessEnd::kDiskBroken);
  EXPECT_GT(result.disk_peak_bytes, kDisk);
}

TEST_F(ProcessTest, SeesWhatIsLeftOnDisk) {
  // Often enough to meet a child that writes before its parent goes on.
  for (int round = 0; round < 10; ++round) {
    const ProcessResult result = shell("head -c 20M /dev/zero > $TMPDIR/file", {.disk_max_bytes = kDisk});
    EXPECT_EQ(result.end, ProcessEnd::kDiskBroken);
  }
  EXPECT_EQ(shell("head -c 12M /dev/zero > $TMPDIR/file", {.disk_max_bytes = kDisk}).end, ProcessEnd::kExited);
}

TEST_F(ProcessTest, CountsWhatGrowsInTheDirectoryOfTheResult) {
  const ScratchDirectory out;
  std::ofstream(out.path() / "input") << std::string(kDisk + 1, 'x');
  const ProcessLimits limits = {.disk_max_bytes = kDisk, .out_directory = out.path()};
  const std::string write = fmt::format("head -c $0 /dev/zero > {}/output", out.path().string());
  const auto writing = [&](const char* bytes) {
    return run_process({"/bin/sh", "-c", write, bytes}, limits, kNotCancelled).end;
  };
  EXPECT_EQ(writing("12M"), ProcessEnd::kExited);
  std::filesystem::remove(out.path() / "output");
  EXPECT_EQ(writing("20M"), ProcessEnd::kDiskBroken);
}

TEST_F(ProcessTest, DirectoriesWithoutEndAreTooMuch) {
  const ProcessResult result =
      python("import os\nos.chdir(os.environ['TMPDIR'])\nfor _ in range(2000): os.mkdir('d'); os.chdir('d')",
             {.disk_max_bytes = kDisk});
  EXPECT_EQ(result.end, ProcessEnd::kDiskBroken);
  EXPECT_EQ(result.disk_peak_bytes, kTooDeep);
}

// As .NET does when it starts: 2 TiB of nothing.
TEST_F(ProcessTest, SparseFilesMayBeOfAnySize) {
  const ProcessResult result = python(
      "import os, signal\n"
      "signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
      "os.ftruncate(os.memfd_create('doublemapper'), 2 << 40)\n");
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.exit_status, 0) << result.stderr_tail;
}

TEST_F(ProcessTest, KillsAMemoryHog) {
  const ProcessResult result = python("x = [b'1' * (16 << 20) for _ in range(4096)]", {.rss_max_bytes = 200u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kMemoryBroken);
  EXPECT_GT(result.rss_peak_bytes, 200u << 20);
  EXPECT_EQ(result.rss_max_bytes, 200u << 20);
  EXPECT_FALSE(result.disk_max_bytes) << "it had no such limit";
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

// Each of them is below the limit.
TEST_F(ProcessTest, SeesTheMemoryOfAllTogether) {
  const ProcessResult result = python(
      "import os, time\n"
      "for _ in range(8):\n"
      "  if os.fork() == 0: x = os.urandom(64 << 20); time.sleep(600)\n"
      "time.sleep(600)\n",
      {.elapsed_max = 60s, .rss_max_bytes = 256u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kMemoryBroken);
  EXPECT_LT(result.rss_peak_bytes, 700u << 20);
}

// What parent and children share counts once, also between a vfork and its exec.
TEST_F(ProcessTest, SharedMemoryCountsOnce) {
  const ProcessResult result = python(
      "import os, subprocess, time\n"
      "x = os.urandom(150 << 20)\n"
      "for _ in range(20): subprocess.run(['/bin/true'])\n"
      "for _ in range(4):\n"
      "  if os.fork() == 0: time.sleep(0.5); os._exit(0)\n"
      "for _ in range(4): os.wait()\n",
      {.elapsed_max = 60s, .rss_max_bytes = 256u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kExited) << result.rss_peak_bytes;
}

TEST_F(ProcessTest, SeesMemoryThatNoProcessHasMapped) {
  const ProcessResult result = python(
      "import os, time\n"
      "file = os.memfd_create('m')\n"
      "for _ in range(256): os.write(file, bytes(1 << 20))\n"
      "time.sleep(600)\n",
      {.elapsed_max = 60s, .rss_max_bytes = 128u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kMemoryBroken);
}

TEST_F(ProcessTest, CountsThreadsAndOpenFiles) {
  const std::string threads =
      "import threading, time\n"
      "for _ in range(50): threading.Thread(target=time.sleep, args=(1,)).start()\n";
  EXPECT_EQ(python(threads, {.elapsed_max = 60s, .threads_max = 20}).end, ProcessEnd::kCountBroken);
  EXPECT_EQ(python(threads, {.elapsed_max = 60s, .threads_max = 51}).end, ProcessEnd::kExited);
  const std::string files =
      "import os, time\n"
      "os.fork()\n"
      "for _ in range(50): os.open('/dev/null', os.O_RDONLY)\n"
      "time.sleep(1)\n";
  EXPECT_EQ(python(files, {.elapsed_max = 60s, .files_max = 80}).end, ProcessEnd::kCountBroken);
  EXPECT_EQ(python(files, {.elapsed_max = 60s, .files_max = 150}).end, ProcessEnd::kExited);
}

TEST_F(ProcessTest, DoesNotCountItsOwnMemory) {
  const std::string ballast(200u << 20, 'x');
  EXPECT_THAT(shell("exit 0").rss_peak_bytes, Lt(64u << 20)) << ballast.size();
}

TEST_F(ProcessTest, BoundsTheMemoryOfSmallProcesses) {
  EXPECT_GT(shell("exit 0").rss_bound_bytes, 100u << 10);
  const ProcessResult result = shell("sleep 1");
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

// Writes 64 MiB to a file without a name, and tells when it is there.
constexpr const char* const kUnlinkedFile =
    "import os, sys, tempfile, time\n"
    "file = tempfile.TemporaryFile()\n"
    "for piece in range(64): file.write(bytes(1 << 20))\n"
    "file.flush(); os.fsync(file.fileno())\n"
    "print('written', flush=True)\n";

TEST_F(ProcessTest, FilesWithoutANameCount) {
  const std::string wait = std::string(kUnlinkedFile) + "time.sleep(600)\n";
  const ProcessResult result = python(wait, {.elapsed_max = 60s, .disk_max_bytes = 32u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kDiskBroken);
  EXPECT_GT(result.disk_peak_bytes, 32u << 20);
  EXPECT_LE(result.disk_peak_bytes, 65u << 20) << "a file counted twice";
}

// One that several processes have open counts once, and one in memory not at all.
TEST_F(ProcessTest, FilesWithoutANameCountOnce) {
  const ProcessResult result = python(std::string(kUnlinkedFile) +
                                          "memory = os.memfd_create('m'); os.write(memory, bytes(8 << 20))\n"
                                          "copy = os.dup(file.fileno())\n"
                                          "if os.fork() == 0: time.sleep(0.5)\n"
                                          "else: os.wait()\n",
                                      {.elapsed_max = 60s, .disk_max_bytes = 68u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kExited) << result.stderr_tail;
  EXPECT_GE(result.disk_peak_bytes, 64u << 20);
}

// What this process has open was there before.
TEST_F(ProcessTest, InheritedFilesWithoutANameDoNotCount) {
  const std::unique_ptr<FILE, int (*)(FILE*)> own(std::tmpfile(), &std::fclose);
  ASSERT_TRUE(own);
  const std::string content(8 << 20, 'x');
  ASSERT_EQ(std::fwrite(content.data(), 1, content.size(), own.get()), content.size());
  ASSERT_EQ(std::fflush(own.get()), 0);
  // The program inherits no descriptor of it, and opens it.
  const std::string script =
      fmt::format("exec 7</proc/{}/fd/{}; sleep 0.3; echo kept", ::getpid(), ::fileno(own.get()));
  const ProcessResult result = shell(script, {.elapsed_max = 60s, .disk_max_bytes = 1u << 20});
  EXPECT_EQ(result.end, ProcessEnd::kExited);
  EXPECT_EQ(result.stdout_text, "kept\n") << result.stderr_tail;
}

TEST_F(ProcessTest, ServerCountsFilesWithoutANameFromTheQuestion) {
  Server server({python_program(), "-c",
                 "import os, sys, tempfile\n"
                 "file = tempfile.TemporaryFile()\n"
                 "for line in sys.stdin:\n"
                 "  for piece in range(int(line)): file.write(bytes(1 << 20))\n"
                 "  file.flush(); os.fsync(file.fileno())\n"
                 "  print('answer', flush=True)\n"},
                kNotCancelled);
  EXPECT_EQ(server.exchange("64", {.disk_max_bytes = 128u << 20}).end, ProcessEnd::kAnswered);
  EXPECT_EQ(server.exchange("0", {.disk_max_bytes = 32u << 20}).end, ProcessEnd::kAnswered);
  EXPECT_GE(server.disk_bytes(1u << 30), 64u << 20);
  EXPECT_EQ(server.exchange("64", {.disk_max_bytes = 32u << 20}).end, ProcessEnd::kDiskBroken);
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

// Serves from a second thread, which has descriptors of its own, while the first one ends.
const std::string kServesFromAThread =
    "import ctypes, os, sys, tempfile, threading, time\n"
    "libc = ctypes.CDLL(None, use_errno=True)\n"
    "def serve():\n"
    "  libc.unshare(0x400)\n"  // CLONE_FILES
    "  time.sleep(0.2)\n"
    "  for line in sys.stdin:\n"
    "    take(int(line) << 20)\n"
    "    print('ok', flush=True)\n"
    "  os._exit(0)\n"
    "threading.Thread(target=serve).start()\n"
    "libc.pthread_exit(None)\n";

TEST_F(ProcessTest, ServerMemoryIsSeenWithoutItsFirstThread) {
  Server server({python_program(), "-Ic", "def take(size):\n  x = b'1' * size\n  del x\n" + kServesFromAThread},
                kNotCancelled);
  EXPECT_EQ(server.exchange("1", {}).end, ProcessEnd::kAnswered);
  EXPECT_GT(server.rss_bytes(), 1u << 20);
  EXPECT_GT(server.exchange("200", {}).rss_peak_bytes, 200u << 20);
  EXPECT_THAT(server.exchange("1", {}).rss_peak_bytes, Lt(150u << 20)) << "the peak was not forgotten";
  EXPECT_EQ(server.exchange("300", {.rss_max_bytes = 200u << 20}).end, ProcessEnd::kMemoryBroken);
}

TEST_F(ProcessTest, ServerMemoryIsThatOfOneQuestionWhileThreadsComeAndGo) {
  Server server({python_program(), "-Ic",
                 "import sys, threading\n"
                 "def churn():\n"
                 "  while True:\n"
                 "    t = threading.Thread(target=lambda: None)\n"
                 "    t.start(); t.join()\n"
                 "for i in range(6): threading.Thread(target=churn, daemon=True).start()\n"
                 "for line in sys.stdin:\n"
                 "  x = b'1' * (int(line) << 20)\n"
                 "  del x\n"
                 "  print('ok', flush=True)\n"},
                kNotCancelled);
  EXPECT_GT(server.exchange("200", {}).rss_peak_bytes, 200u << 20);
  for (int turn = 0; turn < 50; ++turn) {
    ASSERT_THAT(server.exchange("1", {}).rss_peak_bytes, Lt(150u << 20)) << "the peak was not forgotten";
  }
}

TEST_F(ProcessTest, ServerDiskIsSeenInEachThread) {
  Server server({python_program(), "-Ic",
                 "def take(size):\n  global x\n  x = tempfile.TemporaryFile()\n  x.write(bytes(size))\n"
                 "  x.flush(); os.fsync(x.fileno())\n" +
                     kServesFromAThread},
                kNotCancelled);
  EXPECT_EQ(server.exchange("1", {.disk_max_bytes = kDisk}).end, ProcessEnd::kAnswered);
  EXPECT_EQ(server.exchange("64", {.disk_max_bytes = kDisk}).end, ProcessEnd::kDiskBroken);
}

// Its peak cannot be forgotten, which takes the rights of root.
TEST_F(ProcessTest, ServerThatIsNotDumpableIsToBeAskedOneShot) {
  const auto ask = [] {
    // What this process may do as another user is the question.
    if (::geteuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) std::_Exit(1);
    try {
      Server server({python_program(), "-Ic",
                     "import ctypes, sys\n"
                     "ctypes.CDLL(None).prctl(4, 0)\n"  // PR_SET_DUMPABLE
                     "for line in sys.stdin: print('ok', flush=True)\n"},
                    kNotCancelled);
      server.exchange("", {});
      server.exchange("", {});
    } catch (const EnvironmentError& error) {
      std::fputs(error.what(), stderr);
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(ask(), ::testing::ExitedWithCode(3), "use --one-shot");
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

// No process holds a copy of another one's pipes.
TEST_F(ProcessTest, ServerIsToldThatItIsNotAskedAnyMore) {
  const ScratchDirectory directory;
  const auto server = [&](const std::string& name) {
    return std::make_unique<Server>(
        std::vector<std::string>{"/bin/sh", "-c", "while read -r line; do echo ok; done; sleep 0.1; echo > \"$0\"",
                                 (directory.path() / name).string()},
        kNotCancelled);
  };
  auto first = server("first");
  auto second = server("second");
  EXPECT_EQ(first->exchange("", {}).stdout_text, "ok");
  first.reset();
  EXPECT_TRUE(std::filesystem::exists(directory.path() / "first"));
}

TEST_F(ProcessTest, ServerTellsHowItEnded) {
  const auto end_of = [](const std::string& last_words) {
    Server server({"/bin/sh", "-c", "while read -r line; do echo ok; done; " + last_words}, kNotCancelled);
    EXPECT_EQ(server.exchange("", {}).end, ProcessEnd::kAnswered);
    return server.end();
  };
  ASSERT_TRUE(end_of("exit 0"));
  EXPECT_EQ(end_of("exit 0")->end, ProcessEnd::kExited);
  EXPECT_EQ(end_of("exit 7")->exit_status, 7);
  EXPECT_EQ(end_of("kill -SEGV $$")->signal, SIGSEGV);
  EXPECT_FALSE(end_of("sleep 600"));
}

TEST_F(ProcessTest, ServerDiskIsThatOfOneQuestion) {
  Server server = serving("head -c $line /dev/zero > $TMPDIR/$line; echo ok");
  EXPECT_EQ(server.exchange("12M", {.disk_max_bytes = kDisk}).end, ProcessEnd::kAnswered);
  EXPECT_EQ(server.exchange("13M", {.disk_max_bytes = kDisk}).end, ProcessEnd::kAnswered);
  EXPECT_GT(server.disk_bytes(kDisk), kDisk);
  EXPECT_EQ(server.exchange("20M", {.disk_max_bytes = kDisk}).end, ProcessEnd::kDiskBroken);
}

TEST_F(ProcessTest, ChildHasDefaultSignals) {
  EXPECT_THAT(shell("yes | head -n 1; echo end").stdout_text, StartsWith("y\nend")) << "SIGPIPE is not ignored";
}

}  // namespace
}  // namespace tzmark::conformance
