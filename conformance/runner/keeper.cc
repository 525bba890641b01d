// A program and whatever it starts; see keeper.h.
#include "keeper.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <set>
#include <thread>

#include "process_tree.h"

namespace tzmark::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// Long against the time in which the kernel ends thousands of processes on a busy machine.
constexpr auto kEndElapsedMax = std::chrono::seconds(20);
constexpr auto kPassInterval = std::chrono::milliseconds(1);

// What the keeper writes into its pipe: when the program has ended, and when all has.
struct Notice {
  bool all_gone = false;
  int status = 0;  // of the program
  std::uint64_t rusage_peak_bytes = 0;
};

// The keepers that run, which are this process's only children besides strays: what a killed keeper has left behind.
struct Keepers {
  std::mutex mutex;
  std::set<pid_t> pids;
};

Keepers& keepers() {
  static Keepers all;
  return all;
}

void prepare_this_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Strays become this process's children, so that they can be found.
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) fail_call("prctl(PR_SET_CHILD_SUBREAPER)");
    // A program that ends without reading its stdin must not end this process too.
    if (::signal(SIGPIPE, SIG_IGN) == SIG_ERR) fail_call("signal(SIGPIPE)");
  });
}

// The variables of this process, but for that one.
std::vector<std::string> environment_with(const std::string& setting) {
  const std::string_view name = std::string_view(setting).substr(0, setting.find('=') + 1);
  std::vector<std::string> settings = {setting};
  for (char* const* each = environ; *each; ++each) {
    if (!std::string_view(*each).starts_with(name)) settings.emplace_back(*each);
  }
  return settings;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// What a program is executed with.
struct Execution {
  char* const* argv;
  char* const* environment;
  Keeper::Streams streams;
};

// What follows, up to the end of the keeper, runs after a fork in a process of several threads, where only
// async-signal-safe calls are allowed.

[[noreturn]] void tell_error(int error_fd) {
  const int error = errno;
  // If even this write fails, exit status 127 remains to tell.
  [[maybe_unused]] const auto written = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

[[noreturn]] void become_program(const Execution& execution, pid_t parent, int error_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  if (::signal(SIGPIPE, SIG_DFL) == SIG_ERR) ::_exit(127);
  sigset_t no_signals;
  ::sigemptyset(&no_signals);
  ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);
  rlimit file_limit{};
  if (::getrlimit(RLIMIT_FSIZE, &file_limit) != 0) tell_error(error_fd);
  file_limit.rlim_cur = std::min<rlim_t>(file_limit.rlim_cur, kFileMaxBytes);
  file_limit.rlim_max = std::min<rlim_t>(file_limit.rlim_max, kFileMaxBytes);
  const Keeper::Streams& streams = execution.streams;
  if (::setrlimit(RLIMIT_FSIZE, &file_limit) == 0 && ::dup2(streams.in, STDIN_FILENO) >= 0 &&
      ::dup2(streams.out, STDOUT_FILENO) >= 0 && ::dup2(streams.err, STDERR_FILENO) >= 0) {
    ::execvpe(execution.argv[0], execution.argv, execution.environment);
  }
  tell_error(error_fd);
}

// Reaps all that is and comes below the keeper. Never returns.
[[noreturn]] void keep(pid_t program, int notice_fd) {
  Notice notice;
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, __WALL, &usage);
    if (pid < 0 && errno == EINTR) continue;
    notice.all_gone = pid < 0;
    notice.rusage_peak_bytes = std::max(notice.rusage_peak_bytes, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
    if (pid == program) {
      notice.status = status;
      program = 0;  // Another process may get its id.
    } else if (!notice.all_gone) {
      continue;
    }
    if (::write(notice_fd, &notice, sizeof notice) != sizeof notice || notice.all_gone) ::_exit(0);
  }
}

[[noreturn]] void become_keeper(const Execution& execution, pid_t parent, int notice_fd, int error_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  // Only a signal that cannot be blocked ends the keeper before its time.
  sigset_t all_signals;
  ::sigfillset(&all_signals);
  ::sigprocmask(SIG_SETMASK, &all_signals, nullptr);
  // Where it is ignored, as some parents leave it, the kernel reaps children itself and forgets how they ended.
  if (::signal(SIGCHLD, SIG_DFL) == SIG_ERR) tell_error(error_fd);
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) tell_error(error_fd);
  const pid_t self = ::getpid();
  const pid_t program = ::_Fork();
  if (program < 0) tell_error(error_fd);
  if (program == 0) become_program(execution, self, error_fd);
  ::prctl(PR_SET_NAME, "tzmark-keeper");
  // Copies of the descriptors of other programs would keep their pipes open.
  const auto kept = static_cast<unsigned>(notice_fd);
  if ((kept > 0 && ::close_range(0, kept - 1, 0) != 0) || ::close_range(kept + 1, ~0u, 0) != 0) tell_error(error_fd);
  keep(program, notice_fd);
}

// Kills what killed keepers have left behind.
void end_strays(Clock::time_point deadline) {
  for (;;) {
    std::vector<pid_t> strays;
    {
      const std::lock_guard lock(keepers().mutex);
      strays = children_of(::getpid());
      std::erase_if(strays, [](pid_t pid) { return keepers().pids.contains(pid); });
      for (const pid_t stray : strays) {
        ::kill(stray, SIGKILL);
        kill_below(stray);
        ::waitpid(stray, nullptr, WNOHANG | __WALL);
      }
    }
    if (strays.empty()) return;
    if (Clock::now() > deadline) {
      throw EnvironmentError(fmt::format("the adapter left processes that cannot be killed: {}", names_of(strays)));
    }
    std::this_thread::sleep_for(kPassInterval);
  }
}

}  // namespace

Keeper::Keeper(const std::vector<std::string>& argv, const Streams& streams,
               const std::filesystem::path& temporary_folder) {
  prepare_this_process();
  const std::vector<std::string> environment = environment_with("TMPDIR=" + temporary_folder.string());
  const std::vector<char*> words = pointers_to(argv);
  const std::vector<char*> variables = pointers_to(environment);
  Pipe notices;
  Pipe start_error;
  const pid_t parent = ::getpid();
  {
    const std::lock_guard lock(keepers().mutex);
    pid_ = ::fork();
    if (pid_ == 0) {
      become_keeper({words.data(), variables.data(), streams}, parent, notices.write_end.get(),
                    start_error.write_end.get());
    }
    if (pid_ > 0) keepers().pids.insert(pid_);
  }
  if (pid_ < 0) fail_call("fork");
  notices_ = std::move(notices.read_end);
  ::fcntl(notices_.get(), F_SETFL, O_NONBLOCK);
  notices.write_end.close();
  start_error.write_end.close();
  int error = 0;
  ssize_t got = 0;
  // Returns at exec, which closes the other end.
  while ((got = ::read(start_error.read_end.get(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (got != sizeof error) return;
  end();
  throw EnvironmentError(fmt::format("{}: {}", argv[0], std::strerror(error)));
}

Keeper::~Keeper() {
  if (ended_) return;
  try {
    end();
  } catch (const EnvironmentError& error) {
    fmt::print(stderr, "tzmark-conform: {}\n", error.what());
  }
}

Keeper::Ended Keeper::end() {
  Ended result;
  const auto deadline = Clock::now() + kEndElapsedMax;
  // A process that forks and ends over and over is met by one of the passes: each kills all that it finds, and whatever
  // they leave behind comes to the keeper.
  while (read_notices(result)) {
    kill_below(pid_);
    ::kill(pid_, SIGCONT);
    pollfd notice = {notices_.get(), POLLIN, 0};
    ::poll(&notice, 1, static_cast<int>(kPassInterval.count()));
    if (Clock::now() > deadline) give_up();
  }
  ended_ = true;
  while (!reap()) {
    // It was killed, and a stray that traces it is told of its end first.
    if (!all_gone_) end_strays(deadline);
    std::this_thread::sleep_for(kPassInterval);
    if (Clock::now() > deadline) throw EnvironmentError(fmt::format("process {} does not end", pid_));
  }
  if (!all_gone_) end_strays(deadline);
  return result;
}

// Returns whether the keeper goes on.
bool Keeper::read_notices(Ended& result) {
  for (;;) {
    Notice notice;
    const ssize_t got = ::read(notices_.get(), &notice, sizeof notice);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return true;
    if (got != sizeof notice) return false;
    all_gone_ = notice.all_gone;
    result.status = notice.status;
    result.rusage_peak_bytes = std::max(result.rusage_peak_bytes, notice.rusage_peak_bytes);
  }
}

void Keeper::give_up() {
  std::vector<pid_t> left;
  for_each_below(pid_, [&](pid_t pid) { left.push_back(pid); });
  ended_ = true;
  ::kill(pid_, SIGKILL);
  reap();
  throw EnvironmentError(fmt::format("the adapter left processes that cannot be killed: {}", names_of(left)));
}

// Returns whether the keeper is no more.
bool Keeper::reap() {
  const std::lock_guard lock(keepers().mutex);
  // Once all is gone the keeper has nothing left to do but to end, and nobody who could trace it.
  if (::waitpid(pid_, nullptr, all_gone_ ? 0 : WNOHANG) == 0) return false;
  keepers().pids.erase(pid_);
  return true;
}

}  // namespace tzmark::conformance
