// A program and whatever it starts; see keeper.h.
#include "runner/keeper.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "runner/console.h"
#include "runner/process_tree.h"
#include "runner/restrict_self.h"

namespace tzmark::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// Long against the time in which the kernel ends thousands of processes on a busy machine.
constexpr auto kEndElapsedMax = std::chrono::seconds(20);
constexpr auto kPassInterval = std::chrono::milliseconds(1);

// A keeper that has closed its pipe is about to end.
constexpr auto kReapInterval = std::chrono::microseconds(50);
constexpr auto kReapSoon = std::chrono::milliseconds(20);

// Tells the keeper that the thread which started it is dead. A keeper that SIGKILL ended would leave what is below it.
constexpr int kDeathSignal = SIGTERM;

// What the keeper writes into its pipe: when the program has ended, and when all has.
struct Notice {
  bool all_gone = false;
  int status = 0;  // of the program
  std::uint64_t rusage_peak_bytes = 0;
};

// Marks what a program starts, so that nothing else is taken for it: this process may have children that it never
// started, and processes that those leave behind come to it as well. A limit on file locks, which Linux has not
// enforced since 2.4.25, makes the mark: every process inherits it through fork, exec and changes of session and
// environment, and without privileges none can raise it again.
constexpr auto kMarkedLimit = RLIMIT_LOCKS;

// A mark is below the limit of this process, so that those of a program that is this suite itself, as in its tests,
// differ too. This many have to be left, so that a mark hardly ever repeats one that is in use.
constexpr rlim_t kMarksLeast = rlim_t{1} << 20;

rlim_t limit_of(pid_t pid) {
  rlimit limit{};
  return ::prlimit(pid, kMarkedLimit, nullptr, &limit) == 0 ? limit.rlim_max : RLIM_INFINITY;
}

rlim_t new_mark() {
  const rlim_t end = std::min(limit_of(0), rlim_t{1} << 62);
  if (end < 2 * kMarksLeast) {
    throw EnvironmentError(fmt::format("the limit of file locks is {}: raise it (ulimit -x unlimited)", end));
  }
  thread_local std::mt19937_64 random{std::random_device()()};
  return std::uniform_int_distribution<rlim_t>(end / 2, end - 1)(random);
}

// The children of this process that are not strays: the keepers that run, and what was there before the first of them.
struct Keepers {
  std::mutex mutex;
  std::map<pid_t, rlim_t> marks;         // by keeper
  std::map<pid_t, std::string> foreign;  // with the time at which each started
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
    require_children_lists();
    const std::lock_guard lock(keepers().mutex);
    for (const pid_t pid : children_of(::getpid())) keepers().foreign.emplace(pid, start_time_of(pid));
  });
}

// The variables of this process, without those that settings replace; cleaned: those that an adapter may see.
std::vector<std::string> environment_with(std::vector<std::string> settings, bool cleaned) {
  const std::size_t replaced = settings.size();
  for (char* const* each = environ; *each; ++each) {
    const std::string_view variable = *each;
    if (cleaned && !passes_variable(variable.substr(0, variable.find('=')))) continue;
    const bool kept = std::none_of(
        settings.begin(), settings.begin() + static_cast<std::ptrdiff_t>(replaced),
        [&](const std::string& setting) { return variable.starts_with(setting.substr(0, setting.find('=') + 1)); });
    if (kept) settings.emplace_back(variable);
  }
  return settings;
}

// Settings by which no client asks a proxy for a server of this suite, which is on this machine. Most clients read only
// one of the two variables.
std::vector<std::string> settings_without_proxy() {
  constexpr const char* kAll = "*";
  std::string hosts;
  for (const char* name : {"NO_PROXY", "no_proxy"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && *value != '\0') hosts = value;
  }
  if (hosts != kAll) hosts += hosts.empty() ? "127.0.0.1" : ",127.0.0.1";
  return {"no_proxy=" + hosts, "NO_PROXY=" + hosts};
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
  rlim_t mark;
  const Restriction* restriction;  // nullptr: none
};

// What follows, up to the end of the keeper, runs after a fork in a process of several threads, where only
// async-signal-safe calls are allowed.

[[noreturn]] void tell_error(int error_fd) {
  const int error = errno;
  // If even this write fails, exit status 127 still shows it.
  [[maybe_unused]] const auto written = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

// Closes all descriptors but the streams, and a ruleset that the program gets: what this process inherited is none of
// the program's. Returns the descriptor in the place of error_fd, which exec closes.
int keep_descriptors(int ruleset, int error_fd) {
  constexpr int kErrorDescriptor = kRulesetDescriptor + 1;
  // Neither may be in the place that the other gets.
  error_fd = ::fcntl(error_fd, F_DUPFD_CLOEXEC, kErrorDescriptor + 1);
  if (error_fd < 0) ::_exit(127);
  const bool passed = ruleset >= 0;
  if (passed) {
    // A copy in its own place would keep the flag that closes it.
    ruleset = ::fcntl(ruleset, F_DUPFD_CLOEXEC, kErrorDescriptor + 1);
    if (ruleset < 0 || ::dup2(ruleset, kRulesetDescriptor) < 0) tell_error(error_fd);
  }
  const int first = passed ? kErrorDescriptor : kRulesetDescriptor;
  if (::dup3(error_fd, first, O_CLOEXEC) < 0) tell_error(error_fd);
  ::closefrom(first + 1);
  return first;
}

[[noreturn]] void become_program(const Execution& execution, pid_t parent, int error_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  if (::signal(SIGPIPE, SIG_DFL) == SIG_ERR) ::_exit(127);
  sigset_t no_signals;
  ::sigemptyset(&no_signals);
  ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);
  const rlimit mark = {execution.mark, execution.mark};
  if (::setrlimit(kMarkedLimit, &mark) != 0) tell_error(error_fd);
  const Keeper::Streams& streams = execution.streams;
  if (::dup2(streams.in, STDIN_FILENO) < 0 || ::dup2(streams.out, STDOUT_FILENO) < 0 ||
      ::dup2(streams.err, STDERR_FILENO) < 0) {
    tell_error(error_fd);
  }
  const Restriction* const restriction = execution.restriction;
  if (restriction != nullptr && !restriction->enter()) tell_error(error_fd);
  const int last_fd = keep_descriptors(restriction == nullptr ? -1 : restriction->passed_ruleset(), error_fd);
  ::execvpe(execution.argv[0], execution.argv, execution.environment);
  tell_error(last_fd);
}

// Kills the children of the keeper, by its list of them in /proc. Their children become its own, for the next pass.
void kill_own_children(int children_fd) {
  char block[4096];
  const ssize_t got = ::pread(children_fd, block, sizeof block, 0);
  pid_t pid = 0;
  for (ssize_t i = 0; i < got; ++i) {
    // The next pass reads a number that the end of the block cuts.
    if (block[i] == ' ' && pid > 0) ::kill(pid, SIGKILL);
    pid = block[i] >= '0' && block[i] <= '9' ? pid * 10 + (block[i] - '0') : 0;
  }
}

// Reaps everything below the keeper, and kills it if the process or thread that started the keeper dies.
// Never returns.
[[noreturn]] void keep(pid_t program, pid_t parent, int children_fd, int notice_fd) {
  sigset_t awaited;
  ::sigemptyset(&awaited);
  ::sigaddset(&awaited, SIGCHLD);
  ::sigaddset(&awaited, kDeathSignal);
  constexpr timespec kStrayLookInterval = {1, 0};
  constexpr timespec kKillInterval = {0, 1'000'000};
  bool abandoned = false;
  Notice notice;
  for (;;) {
    int status = 0;
    rusage usage{};
    const pid_t pid = ::wait4(-1, &status, __WALL | WNOHANG, &usage);
    if (pid == 0) {
      siginfo_t info{};
      const int signal = ::sigtimedwait(&awaited, &info, abandoned ? &kKillInterval : &kStrayLookInterval);
      // The kernel sends it as the parent; ignores other senders.
      abandoned = abandoned || ::getppid() != parent || (signal == kDeathSignal && info.si_pid == parent);
      if (abandoned) kill_own_children(children_fd);
      continue;
    }
    if (pid < 0 && errno == EINTR) continue;
    notice.all_gone = pid < 0;
    notice.rusage_peak_bytes = std::max(notice.rusage_peak_bytes, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
    if (pid == program) {
      notice.status = status;
      program = 0;  // Another process may get its id.
    } else if (!notice.all_gone) {
      continue;
    }
    // No process reads the output of an abandoned keeper.
    const bool written = ::write(notice_fd, &notice, sizeof notice) == sizeof notice;
    if (notice.all_gone) ::_exit(written ? 0 : 1);
    if (!written) abandoned = true;
  }
}

[[noreturn]] void become_keeper(const Execution& execution, pid_t parent, int notice_fd, int error_fd) {
  // A session without a terminal, to which a program could type commands; the program, which leads none, gets none.
  ::setsid();
  // Only a signal that cannot be blocked ends the keeper early.
  sigset_t all_signals;
  ::sigfillset(&all_signals);
  ::sigprocmask(SIG_SETMASK, &all_signals, nullptr);
  ::prctl(PR_SET_PDEATHSIG, kDeathSignal);
  if (::getppid() != parent) ::_exit(127);
  // If SIGCHLD is ignored, as some parents leave it, the kernel reaps children and discards their status.
  if (::signal(SIGCHLD, SIG_DFL) == SIG_ERR || ::signal(kDeathSignal, SIG_DFL) == SIG_ERR) tell_error(error_fd);
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) tell_error(error_fd);
  const pid_t self = ::getpid();
  const pid_t program = ::_Fork();
  if (program < 0) tell_error(error_fd);
  if (program == 0) become_program(execution, self, error_fd);
  ::prctl(PR_SET_NAME, "tzmark-keeper");
  // Copies of the descriptors of other programs would keep their pipes open. closefrom() needs no close_range().
  if (::dup2(notice_fd, 0) < 0) tell_error(error_fd);
  ::closefrom(1);
  keep(program, parent, ::open("/proc/thread-self/children", O_RDONLY | O_CLOEXEC), 0);
}

// Whether a child of this process, which is no keeper, has this mark, or one that no keeper that runs has given: a
// process may lower its limit. REQUIRES: the lock of keepers().
bool is_marked(pid_t pid, rlim_t mark) {
  const rlim_t limit = limit_of(pid);
  if (limit == mark) return true;
  return limit < limit_of(0) &&
         std::ranges::none_of(keepers().marks, [&](const auto& keeper) { return keeper.second == limit; });
}

// Kills and reaps the processes that the keeper with this mark left, and reaps ended ones. Returns those that have not
// ended yet.
std::vector<pid_t> end_strays_once(rlim_t mark) {
  std::vector<pid_t> strays;
  const std::lock_guard lock(keepers().mutex);
  for (const pid_t pid : children_of(::getpid())) {
    if (keepers().marks.contains(pid)) continue;
    const auto foreign = keepers().foreign.find(pid);
    if (foreign != keepers().foreign.end() && foreign->second == start_time_of(pid)) continue;
    // Only this process can reap them.
    if (::waitpid(pid, nullptr, WNOHANG | __WALL) == pid) continue;
    if (!is_marked(pid, mark)) continue;
    kill_below(pid);
    ::kill(pid, SIGKILL);
    strays.push_back(pid);
  }
  return strays;
}

void end_strays(rlim_t mark, Clock::time_point deadline) {
  for (;;) {
    const std::vector<pid_t> strays = end_strays_once(mark);
    if (strays.empty()) return;
    if (Clock::now() > deadline) {
      throw EnvironmentError(fmt::format("the adapter left processes that cannot be killed: {}", names_of(strays)));
    }
    std::this_thread::sleep_for(kPassInterval);
  }
}

}  // namespace

Keeper::Keeper(const std::vector<std::string>& argv, const Streams& streams,
               const std::filesystem::path& temporary_directory, const Restriction* restriction) {
  prepare_this_process();
  mark_ = new_mark();
  std::vector<std::string> settings = settings_without_proxy();
  settings.push_back("TMPDIR=" + temporary_directory.string());
  const std::vector<std::string> environment = environment_with(std::move(settings), restriction != nullptr);
  const std::vector<char*> words = pointers_to(argv);
  const std::vector<char*> variables = pointers_to(environment);
  Pipe notices;
  Pipe start_error;
  const pid_t parent = ::getpid();
  {
    const std::lock_guard lock(keepers().mutex);
    pid_ = ::fork();
    if (pid_ == 0) {
      become_keeper({words.data(), variables.data(), streams, mark_, restriction}, parent, notices.write_end.get(),
                    start_error.write_end.get());
    }
    if (pid_ > 0) keepers().marks.emplace(pid_, mark_);
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
  if (!ended_) tell_failure_of([&] { end(); });
}

Keeper::Ended Keeper::end() {
  Ended result;
  const auto deadline = Clock::now() + kEndElapsedMax;
  // One of the passes meets a process that keeps forking: each pass kills all that it finds, and their orphans come to
  // the keeper.
  while (read_notices(result)) {
    kill_below(pid_);
    ::kill(pid_, SIGCONT);
    pollfd notice = {notices_.get(), POLLIN, 0};
    ::poll(&notice, 1, static_cast<int>(kPassInterval.count()));
    if (Clock::now() > deadline) give_up();
  }
  ended_ = true;
  int keeper_status = 0;
  const auto notices_ended = Clock::now();
  while (!reap(keeper_status)) {
    // Where it was killed by one that traces it, that one is a stray now, and is told of the end first.
    if (Clock::now() - notices_ended > kReapSoon) end_strays_once(mark_);
    std::this_thread::sleep_for(kReapInterval);
    if (Clock::now() > deadline) throw EnvironmentError(fmt::format("process {} does not end", pid_));
  }
  // A status is believed only if the keeper itself came to its end: anyone may write into its pipe and kill it.
  if (all_gone_ && WIFEXITED(keeper_status) && WEXITSTATUS(keeper_status) == 0) return result;
  result.status.reset();
  end_strays(mark_, deadline);
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
  int status = 0;
  for (int i = 0; i < 100 && !reap(status); ++i) std::this_thread::sleep_for(kPassInterval);
  throw EnvironmentError(fmt::format("the adapter left processes that cannot be killed: {}", names_of(left)));
}

// Returns whether the keeper is no more. Never waits: one that traces the keeper could keep it from being reaped.
bool Keeper::reap(int& status) {
  const std::lock_guard lock(keepers().mutex);
  if (::waitpid(pid_, &status, WNOHANG) == 0) return false;
  keepers().marks.erase(pid_);
  return true;
}

}  // namespace tzmark::conformance
