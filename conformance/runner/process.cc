// Runs a child process under limits; see process.h.
#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <utility>

#include "errors.h"
#include "odd_sizes.h"

namespace tzmark::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// Short against the time in which a process can fill the memory of a machine, long against what a sample costs. A young
// process is sampled more often, because what ends after a few milliseconds would not be seen otherwise.
constexpr std::chrono::nanoseconds kSampleIntervalMin = std::chrono::milliseconds(2);
constexpr std::chrono::nanoseconds kSampleIntervalMax = std::chrono::milliseconds(5);

// How often a pipe is looked at that has to be empty before the next piece goes into it.
constexpr std::chrono::nanoseconds kPieceInterval = std::chrono::microseconds(200);

constexpr int kDismissalMilliseconds = 1000;

[[noreturn]] void fail(const char* call) { throw EnvironmentError(fmt::format("{}: {}", call, std::strerror(errno))); }

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

struct Pipe {
  Descriptor read_end;
  Descriptor write_end;

  Pipe() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) fail("pipe2");
    read_end = Descriptor(fds[0]);
    write_end = Descriptor(fds[1]);
  }
};

void prepare_this_process() {
  static std::once_flag once;
  std::call_once(once, [] {
    // Orphans below this process become its children, so that they can be reaped.
    if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) fail("prctl(PR_SET_CHILD_SUBREAPER)");
    // A child that ends without reading its stdin must not end this process too.
    if (::signal(SIGPIPE, SIG_IGN) == SIG_ERR) fail("signal(SIGPIPE)");
  });
}

// Runs in the child between fork and exec, where only async-signal-safe calls are allowed. Never returns.
[[noreturn]] void become_program(char* const* argv, pid_t parent, int stdin_fd, int stdout_fd, int stderr_fd,
                                 int error_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);
  sigset_t no_signals;
  ::sigemptyset(&no_signals);
  ::sigprocmask(SIG_SETMASK, &no_signals, nullptr);
  if (::signal(SIGPIPE, SIG_DFL) == SIG_ERR) ::_exit(127);
  if (::dup2(stdin_fd, STDIN_FILENO) >= 0 && ::dup2(stdout_fd, STDOUT_FILENO) >= 0 &&
      ::dup2(stderr_fd, STDERR_FILENO) >= 0) {
    ::execvp(argv[0], argv);
  }
  const int error = errno;
  // If even this write fails, exit status 127 remains to tell.
  [[maybe_unused]] const auto written = ::write(error_fd, &error, sizeof error);
  ::_exit(127);
}

std::uint64_t own_rss_bytes() {
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A line of /proc/PID/status, in bytes; 0 if the process is gone. VmRSS is the resident memory of one process, VmHWM
// its peak since its exec or since the peak was forgotten.
std::uint64_t status_bytes_of(pid_t pid, const char* name) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(std::strlen(name))) * 1024;
  }
  return 0;
}

// Calls visit with the id of a process and of everything below it.
template <typename Visit>
void for_each_below(pid_t pid, const Visit& visit) {
  visit(pid);
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), gone)) {
    std::ifstream children(task.path() / "children");
    for (pid_t child = 0; children >> child;) for_each_below(child, visit);
  }
}

// The largest among a process and everything below it.
std::uint64_t largest_below(pid_t pid, const char* name) {
  std::uint64_t bytes = 0;
  for_each_below(pid, [&](pid_t each) { bytes = std::max(bytes, status_bytes_of(each, name)); });
  return bytes;
}

// Peaks count from here. Without this a process that was large once would seem so for ever.
void forget_peaks_below(pid_t pid) {
  for_each_below(pid, [&](pid_t each) {
    std::ofstream file(fmt::format("/proc/{}/clear_refs", each));
    file << "5" << std::flush;
    // One that has ended has no peak any more.
    if (!file && each == pid && ::kill(each, 0) == 0 && status_bytes_of(each, "VmRSS:") > 0) {
      throw EnvironmentError("the memory of a serving adapter cannot be measured here (/proc/PID/clear_refs)");
    }
  });
}

enum class Stdin { kNull, kPipe };

}  // namespace

class Child {
 public:
  Child(const std::vector<std::string>& argv, Stdin stdin_kind) {
    prepare_this_process();
    std::vector<char*> words;
    words.reserve(argv.size() + 1);
    for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);

    Descriptor stdin_end;
    if (stdin_kind == Stdin::kPipe) {
      Pipe in;
      stdin_end = std::move(in.read_end);
      stdin_ = std::move(in.write_end);
    } else {
      stdin_end = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!stdin_end.open()) fail("/dev/null");
    }
    Pipe out;
    Pipe err;
    Pipe start_error;
    const pid_t parent = ::getpid();
    runner_rss_bytes_ = own_rss_bytes();
    started_ = Clock::now();
    pid_ = ::fork();
    if (pid_ < 0) fail("fork");
    if (pid_ == 0) {
      become_program(words.data(), parent, stdin_end.get(), out.write_end.get(), err.write_end.get(),
                     start_error.write_end.get());
    }
    // The child does the same; whoever comes first, the group exists before anyone signals it.
    ::setpgid(pid_, pid_);
    // Other threads may have taken or given back memory around the fork.
    runner_rss_bytes_ = std::max(runner_rss_bytes_, own_rss_bytes());
    out.write_end.close();
    err.write_end.close();
    start_error.write_end.close();

    int error = 0;
    ssize_t got = 0;
    // Returns at exec, which closes the other end.
    while ((got = ::read(start_error.read_end.get(), &error, sizeof error)) < 0 && errno == EINTR) {
    }
    if (got == sizeof error) {
      kill_and_reap();
      throw EnvironmentError(fmt::format("{}: {}", argv[0], std::strerror(error)));
    }
    // glibc 2.36 declares pidfd_open without C linkage, hence the system call by number.
    exit_notice_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
    if (!exit_notice_.open()) {
      const int pidfd_error = errno;
      kill_and_reap();
      errno = pidfd_error;
      fail("pidfd_open");
    }
    stdout_ = std::move(out.read_end);
    stderr_ = std::move(err.read_end);
    for (const Descriptor* pipe : {&stdin_, &stdout_, &stderr_}) {
      if (pipe->open()) ::fcntl(pipe->get(), F_SETFL, O_NONBLOCK);
    }
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child(Child&&) = delete;
  Child& operator=(Child&&) = delete;

  ~Child() {
    if (!reaped_) kill_and_reap();
  }

  // Ends its stdin, and waits a moment for it to end of itself.
  void dismiss() {
    if (reaped_) return;
    stdin_.close();
    pollfd exit = {exit_notice_.get(), POLLIN, 0};
    ::poll(&exit, 1, kDismissalMilliseconds);
  }

  // Runs to the child's end or to the first broken limit.
  ProcessResult finish(const ProcessLimits& limits, const std::atomic<bool>& cancelled, const Feed* feed) {
    if (feed) {
      unsent_ = std::string_view(reinterpret_cast<const char*>(feed->bytes.data()), feed->bytes.size());
      feed_ = feed;
      // The smallest pipe there is, so that little lies in it that nobody asked for.
      ::fcntl(stdin_.get(), F_SETPIPE_SZ, 1);
    }
    std::optional<ProcessEnd> broken;
    for (bool exited = false; !exited && !broken;) {
      exited = watch(limits);
      broken = broken_limit(limits);
      if (!broken && !exited && cancelled) broken = ProcessEnd::kCancelled;
    }
    return end(limits, broken);
  }

  // Sends a line and runs to the line that answers it, to the child's end, or to the first broken limit.
  ProcessResult exchange(std::string_view line, const ProcessLimits& limits, const std::atomic<bool>& cancelled) {
    result_ = {};
    searched_bytes_ = 0;
    given_bytes_ = 0;
    started_ = Clock::now();
    forget_peaks_below(pid_);
    line_.assign(line);
    line_ += '\n';
    unsent_ = line_;
    std::optional<ProcessEnd> broken;
    for (bool exited = false; !exited && !broken;) {
      exited = watch(limits);
      broken = broken_limit(limits);
      if (!broken && !exited && cancelled) broken = ProcessEnd::kCancelled;
      if (broken || !line_is_there()) continue;
      result_.elapsed = Clock::now() - started_;
      // The kernel remembers the peak, so that memory that was given back before the answer counts as well.
      note_peak();
      broken = broken_limit(limits);
      if (!broken) return answered();
    }
    return end(limits, broken);
  }

  std::uint64_t rss_bytes() const { return reaped_ ? 0 : largest_below(pid_, "VmRSS:"); }

  bool ready() const {
    if (reaped_) return false;
    std::array<pollfd, 2> events = {{{exit_notice_.get(), POLLIN, 0}, {stdout_.get(), POLLIN, 0}}};
    return ::poll(events.data(), events.size(), 0) == 0;
  }

 private:
  // One round of looking at memory and of moving what is in the pipes. Returns whether the child has ended.
  bool watch(const ProcessLimits& limits) {
    note_peak();
    const bool exited = wait_for_event();
    write_input();
    read_output(limits);
    return exited;
  }

  void note_peak() { result_.rss_peak_bytes = std::max(result_.rss_peak_bytes, largest_below(pid_, "VmHWM:")); }

  ProcessResult end(const ProcessLimits& limits, std::optional<ProcessEnd> broken) {
    result_.elapsed = Clock::now() - started_;
    note_taken();
    kill_and_reap();
    read_output(limits);
    if (!broken) broken = broken_limit(limits);
    if (broken) result_.end = *broken;
    return std::move(result_);
  }

  // Whether a line has come, which ends at searched_bytes_. Looks at each byte once.
  bool line_is_there() {
    searched_bytes_ = std::min(result_.stdout_text.find('\n', searched_bytes_), result_.stdout_text.size());
    return searched_bytes_ < result_.stdout_text.size();
  }

  ProcessResult answered() {
    result_.end = ProcessEnd::kAnswered;
    result_.rss_bound_bytes = result_.rss_peak_bytes;
    // Nobody asked for a second line, nor for an answer to half a question. They are kept, which makes this no answer.
    if (searched_bytes_ + 1 == result_.stdout_text.size() && unsent_.empty()) result_.stdout_text.pop_back();
    return std::move(result_);
  }

  // Waits for output, the end of the child or the time of the next sample. Returns whether the child has ended.
  bool wait_for_event() {
    // A negative descriptor is left out.
    const bool piece_lies_there = room_bytes() == 0;
    const int writable = (unsent_.empty() && !feed_) || piece_lies_there ? -1 : stdin_.get();
    std::array<pollfd, 4> events = {{{exit_notice_.get(), POLLIN, 0},
                                     {stdout_.get(), POLLIN, 0},
                                     {stderr_.get(), POLLIN, 0},
                                     {writable, POLLOUT, 0}}};
    const auto interval = piece_lies_there ? kPieceInterval
                                           : std::clamp<std::chrono::nanoseconds>(
                                                 (Clock::now() - started_) / 8, kSampleIntervalMin, kSampleIntervalMax);
    const timespec timeout = {0, interval.count()};
    if (::ppoll(events.data(), events.size(), &timeout, nullptr) < 0 && errno != EINTR) fail("ppoll");
    return (events[0].revents & POLLIN) != 0;
  }

  std::uint64_t waiting_bytes() const {
    int bytes = 0;
    return stdin_.open() && ::ioctl(stdin_.get(), FIONREAD, &bytes) == 0 ? static_cast<std::uint64_t>(bytes) : 0;
  }

  // How much may go into the pipe now; 0 while a piece lies in it.
  std::uint64_t room_bytes() const {
    if (!feed_ || !feed_->piece_seed) return std::numeric_limits<std::uint64_t>::max();
    return waiting_bytes() > 0 ? 0 : odd_piece_bytes(*feed_->piece_seed, given_bytes_, feed_->bytes.size());
  }

  // Gives as much of the line or the feed as the pipe takes.
  void write_input() {
    static constexpr std::array<char, 4096> kZeros{};
    // A child that reads as fast as this writes must not keep the limits from being looked at.
    for (int round = 0; round < 16 && stdin_.open(); ++round) {
      if (unsent_.empty() && feed_ && feed_->endless) unsent_ = {kZeros.data(), kZeros.size()};
      if (unsent_.empty()) {
        // A file ends, and a conversation goes on.
        if (feed_) {
          result_.stdin_taken_bytes = given_bytes_;
          stdin_.close();
        }
        return;
      }
      const std::uint64_t given = std::min<std::uint64_t>(unsent_.size(), room_bytes());
      if (given == 0) break;
      const ssize_t written = ::write(stdin_.get(), unsent_.data(), given);
      if (written > 0) {
        unsent_.remove_prefix(static_cast<std::size_t>(written));
        given_bytes_ += static_cast<std::uint64_t>(written);
      } else if (errno == EAGAIN) {
        break;
      } else if (errno != EINTR) {
        // It does not read any more. Whether it still answers is for the limits to say.
        note_taken();
        stdin_.close();
      }
    }
    note_taken();
  }

  void note_taken() {
    if (stdin_.open()) result_.stdin_taken_bytes = given_bytes_ - waiting_bytes();
  }

  // Takes what is in the pipes, but at most so much at a time that the limits are looked at in between.
  void read_output(const ProcessLimits& limits) {
    std::array<char, 65536> block;
    for (int round = 0; round < 16 && stdout_.open(); ++round) {
      const std::optional<std::size_t> got = read_some(stdout_, block);
      if (!got) break;
      // One byte more than allowed is kept, so that the limit is seen to be broken.
      const std::size_t room_bytes = limits.stdout_max_bytes + 1 - result_.stdout_text.size();
      result_.stdout_text.append(block.data(), std::min(*got, room_bytes));
    }
    for (int round = 0; round < 16 && stderr_.open(); ++round) {
      const std::optional<std::size_t> got = read_some(stderr_, block);
      if (!got) break;
      result_.stderr_tail.append(block.data(), *got);
      if (result_.stderr_tail.size() > limits.stderr_tail_max_bytes) {
        result_.stderr_tail.erase(0, result_.stderr_tail.size() - limits.stderr_tail_max_bytes);
      }
    }
  }

  // Nothing if the pipe is empty for now, or at its end, where it is closed.
  static std::optional<std::size_t> read_some(Descriptor& pipe, std::array<char, 65536>& block) {
    ssize_t got = 0;
    while ((got = ::read(pipe.get(), block.data(), block.size())) < 0 && errno == EINTR) {
    }
    if (got > 0) return static_cast<std::size_t>(got);
    if (got == 0) {
      pipe.close();
    } else if (errno != EAGAIN) {
      fail("read from the adapter");
    }
    return std::nullopt;
  }

  std::optional<ProcessEnd> broken_limit(const ProcessLimits& limits) const {
    if (result_.rss_peak_bytes > limits.rss_max_bytes) return ProcessEnd::kMemoryBroken;
    if (result_.stdout_text.size() > limits.stdout_max_bytes) return ProcessEnd::kOutputBroken;
    if (feed_ && result_.stdin_taken_bytes > feed_->taken_max_bytes) return ProcessEnd::kInputBroken;
    if (!reaped_ && Clock::now() - started_ > limits.elapsed_max) return ProcessEnd::kTimedOut;
    return std::nullopt;
  }

  // While the leader is not reaped its process id cannot be given away, so the signal reaches nobody else. Orphans of
  // the group have become our children by the time that their parent is reaped.
  void kill_and_reap() {
    ::kill(-pid_, SIGKILL);
    // Nothing happens to a leader that has ended already.
    ::kill(pid_, SIGKILL);
    std::uint64_t rusage_peak_bytes = 0;
    for (;;) {
      int status = 0;
      rusage usage{};
      const pid_t pid = ::wait4(-pid_, &status, 0, &usage);
      if (pid < 0 && errno == EINTR) continue;
      if (pid < 0) break;
      rusage_peak_bytes = std::max(rusage_peak_bytes, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024);
      if (pid == pid_) set_status(status);
    }
    reaped_ = true;
    // Up to its exec the child was a copy of this process, and the kernel's peak counts that too: a peak no larger than
    // this process says nothing about the program, except that it did not use more.
    if (rusage_peak_bytes > runner_rss_bytes_) {
      result_.rss_peak_bytes = std::max(result_.rss_peak_bytes, rusage_peak_bytes);
    }
    result_.rss_bound_bytes = std::max(result_.rss_peak_bytes, rusage_peak_bytes);
  }

  void set_status(int status) {
    if (WIFEXITED(status)) {
      result_.end = ProcessEnd::kExited;
      result_.exit_status = WEXITSTATUS(status);
    } else {
      result_.end = ProcessEnd::kSignaled;
      result_.signal = WTERMSIG(status);
    }
  }

  pid_t pid_ = -1;
  bool reaped_ = false;
  std::uint64_t runner_rss_bytes_ = 0;
  Clock::time_point started_;
  std::string line_;
  std::string_view unsent_;
  std::size_t searched_bytes_ = 0;
  const Feed* feed_ = nullptr;
  std::uint64_t given_bytes_ = 0;
  Descriptor exit_notice_;
  Descriptor stdin_;
  Descriptor stdout_;
  Descriptor stderr_;
  ProcessResult result_;
};

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessLimits& limits,
                          const std::atomic<bool>& cancelled, const Feed* feed) {
  return Child(argv, feed ? Stdin::kPipe : Stdin::kNull).finish(limits, cancelled, feed);
}

Server::Server(const std::vector<std::string>& argv, const std::atomic<bool>& cancelled)
    : child_(std::make_unique<Child>(argv, Stdin::kPipe)), cancelled_(cancelled) {}

Server::~Server() { child_->dismiss(); }

ProcessResult Server::exchange(std::string_view line, const ProcessLimits& limits) {
  return child_->exchange(line, limits, cancelled_);
}

std::uint64_t Server::rss_bytes() const { return child_->rss_bytes(); }

bool Server::ready() const { return child_->ready(); }

void end_left_over_children() {
  for (;;) {
    // Killing a process makes its children ours.
    for_each_below(::getpid(), [](pid_t pid) {
      if (pid != ::getpid()) ::kill(pid, SIGKILL);
    });
    int status = 0;
    const pid_t reaped = ::waitpid(-1, &status, 0);
    if (reaped < 0 && errno != EINTR) return;
  }
}

}  // namespace tzmark::conformance
