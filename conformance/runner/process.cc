// Runs a child process under limits; see process.h.
#include "runner/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "runner/console.h"
#include "runner/descriptor.h"
#include "runner/directory_tree.h"
#include "runner/keeper.h"
#include "runner/odd_sizes.h"
#include "runner/process_tree.h"
#include "runner/scratch_directory.h"
#include "runner/unlinked_files.h"

namespace tzmark::conformance {
namespace {

using Clock = std::chrono::steady_clock;

// Short against the time in which a process can fill the memory of a machine, long against what a sample costs. A young
// process is sampled more often, because what ends after a few milliseconds would not be seen otherwise.
constexpr std::chrono::nanoseconds kSampleIntervalMin = std::chrono::milliseconds(2);
constexpr std::chrono::nanoseconds kSampleIntervalMax = std::chrono::milliseconds(5);

// How often a pipe is looked at that has to be empty before the next piece goes into it.
constexpr std::chrono::nanoseconds kPieceInterval = std::chrono::microseconds(200);

// A disk fills slowly, and looking costs what many files make it cost.
constexpr std::chrono::nanoseconds kDiskIntervalMin = std::chrono::milliseconds(50);

constexpr int kDismissalMilliseconds = 1000;

std::uint64_t own_rss_bytes() {
  std::uint64_t total_pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> total_pages >> resident_pages;
  return resident_pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A line of status in a directory of /proc, in bytes; 0 if it is not there.
std::uint64_t status_bytes_in(const std::string& directory, const char* name) {
  std::ifstream status(directory + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(name)) return std::stoull(line.substr(std::strlen(name))) * 1024;
  }
  return 0;
}

// VmRSS is the resident memory of one process, VmHWM its peak since its exec or since the peak was forgotten; 0 if the
// process has ended. The first thread that runs tells it: one that has ended (pthread_exit) has no memory any more.
std::uint64_t status_bytes_of(pid_t pid, const char* name) {
  for (const pid_t thread : threads_of(pid)) {
    const std::uint64_t bytes = status_bytes_in(fmt::format("/proc/{}/task/{}", pid, thread), name);
    if (bytes > 0) return bytes;
  }
  return 0;
}

// The largest among the processes below this one.
std::uint64_t largest_below(pid_t pid, const char* name) {
  std::uint64_t bytes = 0;
  for_each_below(pid, [&](pid_t each) { bytes = std::max(bytes, status_bytes_of(each, name)); });
  return bytes;
}

// What the processes below one use, from a look that costs little.
struct ProcessUse {
  std::vector<pid_t> processes = {};
  std::uint64_t threads = 0;
  std::uint64_t largest_peak_bytes = 0;
  std::uint64_t peaks_sum_bytes = 0;  // counts what they share several times
};

ProcessUse use_below(pid_t pid) {
  ProcessUse use;
  for_each_below(pid, [&](pid_t each) {
    const std::uint64_t peak_bytes = status_bytes_of(each, "VmHWM:");
    use.processes.push_back(each);
    use.threads += threads_of(each).size();
    use.largest_peak_bytes = std::max(use.largest_peak_bytes, peak_bytes);
    use.peaks_sum_bytes += peak_bytes;
  });
  return use;
}

// Whether two processes have one memory, as after vfork. Not known where the kernel lacks the call.
bool share_memory(pid_t first, pid_t second) {
  constexpr int kMemory = 1;  // KCMP_VM
  return ::syscall(SYS_kcmp, first, second, kMemory, 0, 0) == 0;
}

// Resident memory of processes, in which each page counts once, and files in memory that no process need have mapped.
std::uint64_t memory_together(const std::vector<pid_t>& processes, std::uint64_t memory_files_bytes) {
  // Comparing each with each takes long for many, of which two with one memory make no difference.
  constexpr std::size_t kComparedMax = 32;
  std::uint64_t private_bytes = 0;
  std::uint64_t shared_bytes = 0;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    const pid_t pid = processes[i];
    const auto before = processes.begin() + static_cast<std::ptrdiff_t>(std::min(i, kComparedMax));
    if (std::any_of(processes.begin(), before, [&](pid_t other) { return share_memory(other, pid); })) continue;
    std::ifstream rollup(fmt::format("/proc/{}/smaps_rollup", pid));
    bool is_told = false;
    for (std::string line; std::getline(rollup, line);) {
      const bool is_private = line.starts_with("Pss_Anon:") || line.starts_with("Pss_File:");
      if (!is_private && !line.starts_with("Pss_Shmem:")) continue;
      is_told = true;
      (is_private ? private_bytes : shared_bytes) += std::stoull(line.substr(line.find(':') + 1)) * 1024;
    }
    if (!is_told) private_bytes += status_bytes_of(pid, "VmRSS:");
  }
  return private_bytes + std::max(shared_bytes, memory_files_bytes);
}

bool forget_peak(pid_t pid) {
  // Where all threads come and go, those that a list names may have ended before they are asked.
  constexpr int kListsMax = 10;
  for (int list = 0; list < kListsMax; ++list) {
    for (const pid_t thread : threads_of(pid)) {
      const std::string directory = fmt::format("/proc/{}/task/{}", pid, thread);
      std::ofstream file(directory + "/clear_refs");
      file << "5" << std::flush;
      // All threads have one peak. One that has ended takes the request, and does nothing.
      if (file.good() && status_bytes_in(directory, "VmRSS:") > 0) return true;
    }
    // A process that has ended has no peak any more.
    if (status_bytes_of(pid, "VmRSS:") == 0) return true;
  }
  return false;
}

// Peaks count from here. Without this a process that was large once would seem so for ever.
void forget_peaks_below(pid_t pid) {
  for (const pid_t child : children_of(pid)) {
    if (!forget_peak(child)) {
      throw EnvironmentError(
          "the memory of one question to a serving adapter cannot be measured (/proc/PID/clear_refs): the process is "
          "not dumpable, belongs to another user, or the kernel lacks it; use --one-shot");
    }
    for_each_below(child, forget_peak);
  }
}

enum class Stdin { kNull, kPipe };

}  // namespace

class Child {
 public:
  // limits: of all that the child does, so that what it writes before this returns counts.
  Child(const std::vector<std::string>& argv, Stdin stdin_kind, const ProcessLimits& limits,
        const Containment* containment)
      : root_(containment != nullptr ? case_root() : nullptr) {
    std::optional<Restriction> restriction;
    if (containment != nullptr) restriction.emplace(*containment, std::vector{temporary_.path(), root_->path()});
    Descriptor stdin_end;
    if (stdin_kind == Stdin::kPipe) {
      Pipe in;
      stdin_end = std::move(in.read_end);
      stdin_ = std::move(in.write_end);
    } else {
      stdin_end = Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC));
      if (!stdin_end.open()) fail_call("/dev/null");
    }
    Pipe out;
    Pipe err;
    runner_rss_bytes_ = own_rss_bytes();
    begin_disk(limits);
    started_ = Clock::now();
    keeper_.emplace(argv, Keeper::Streams{stdin_end.get(), out.write_end.get(), err.write_end.get()}, temporary_.path(),
                    restriction ? &*restriction : nullptr);
    // Other threads may have taken or given back memory around the fork.
    runner_rss_bytes_ = std::max(runner_rss_bytes_, own_rss_bytes());
    stdout_ = std::move(out.read_end);
    stderr_ = std::move(err.read_end);
    for (const Descriptor* pipe : {&stdin_, &stdout_, &stderr_}) {
      if (pipe->open()) ::fcntl(pipe->get(), F_SETFL, O_NONBLOCK);
    }
  }

  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() = default;

  // Ends its stdin, and waits a moment for it to end of itself. Returns how it did, or nothing.
  std::optional<ProcessResult> dismiss() {
    if (keeper_->ended()) return std::nullopt;
    stdin_.close();
    pollfd exit = {keeper_->notice_fd(), POLLIN, 0};
    const bool ended_itself = ::poll(&exit, 1, kDismissalMilliseconds) > 0;
    result_ = {};
    read_output({});
    collect();
    return ended_itself ? std::optional(std::move(result_)) : std::nullopt;
  }

  // Runs to the child's end or to the first broken limit. limits: those that it was started with.
  ProcessResult finish(const ProcessLimits& limits, const std::atomic<bool>& cancelled, const Feed* feed) {
    if (feed) {
      unsent_ = std::string_view(reinterpret_cast<const char*>(feed->bytes.data()), feed->bytes.size());
      feed_ = feed;
      // The smallest pipe, so that it holds few bytes that the child has not read.
      ::fcntl(stdin_.get(), F_SETPIPE_SZ, 1);
    }
    return run(limits, cancelled, /*until_answer=*/false);
  }

  // Sends a line and runs to the line that answers it, to the child's end, or to the first broken limit.
  ProcessResult exchange(std::string_view line, const ProcessLimits& limits, const std::atomic<bool>& cancelled) {
    result_ = {};
    searched_bytes_ = 0;
    given_bytes_ = 0;
    started_ = Clock::now();
    forget_peaks_below(keeper_->pid());
    begin_disk(limits);
    line_.assign(line);
    line_ += '\n';
    unsent_ = line_;
    return run(limits, cancelled, /*until_answer=*/true);
  }

  // Runs to the child's end, to the first broken limit, or to a line on stdout if that is wanted.
  ProcessResult run(const ProcessLimits& limits, const std::atomic<bool>& cancelled, bool until_answer) {
    note_limits(limits);
    std::optional<ProcessEnd> broken;
    for (bool exited = false; !exited && !broken;) {
      exited = watch(limits);
      broken = broken_limit(limits);
      if (!broken && !exited && cancelled) broken = ProcessEnd::kCancelled;
      if (!until_answer || broken || !line_is_there()) continue;
      result_.elapsed = Clock::now() - started_;
      // The kernel remembers the peak, so that memory that was given back before the answer counts as well.
      note_use(limits);
      note_disk(limits);
      broken = broken_limit(limits);
      if (!broken) return answered();
    }
    return end(limits, broken);
  }

  std::uint64_t rss_bytes() const { return keeper_->ended() ? 0 : largest_below(keeper_->pid(), "VmRSS:"); }

  std::uint64_t temporary_bytes(std::uint64_t enough_bytes) const {
    return with_directories(recent_unlinked_bytes(), {temporary_.path()}, enough_bytes);
  }

  bool ready() const {
    if (keeper_->ended()) return false;
    std::array<pollfd, 2> events = {{{keeper_->notice_fd(), POLLIN, 0}, {stdout_.get(), POLLIN, 0}}};
    return ::poll(events.data(), events.size(), 0) == 0;
  }

 private:
  // Keeps the limits in the result, so that a report can show them next to what was used.
  void note_limits(const ProcessLimits& limits) {
    constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
    result_.elapsed_max = limits.elapsed_max;
    if (limits.rss_max_bytes != kNone) result_.rss_max_bytes = limits.rss_max_bytes;
    if (limits.disk_max_bytes != kNone) result_.disk_max_bytes = limits.disk_max_bytes;
    if (limits.threads_max != kNone) result_.threads_max = limits.threads_max;
    if (limits.files_max != kNone) result_.files_max = limits.files_max;
  }

  // One round of looking at memory and of moving what is in the pipes. Returns whether the child has ended.
  bool watch(const ProcessLimits& limits) {
    if (Clock::now() >= next_memory_look_) look_at_memory(limits);
    if (Clock::now() >= next_disk_look_) note_disk(limits);
    const bool exited = wait_for_event();
    write_input();
    read_output(limits);
    return exited;
  }

  void note_use(const ProcessLimits& limits) {
    const ProcessUse use = use_below(keeper_->pid());
    result_.threads_peak = std::max(result_.threads_peak, use.threads);
    std::uint64_t bytes = use.largest_peak_bytes;
    // The exact sum takes long, and most programs are far from the limit. What has none tells how much is idle.
    const bool may_break = use.peaks_sum_bytes + open_files_.memory_bytes > limits.rss_max_bytes ||
                           limits.rss_max_bytes == std::numeric_limits<std::uint64_t>::max();
    if (may_break && (use.processes.size() > 1 || open_files_.memory_bytes > 0)) {
      bytes = std::max(bytes, memory_together(use.processes, open_files_.memory_bytes));
    }
    result_.rss_peak_bytes = std::max(result_.rss_peak_bytes, bytes);
  }

  // Looks at the open files, and returns what lies on disk without a name; none before the start and after the end.
  std::uint64_t unlinked_bytes() const {
    open_files_ = keeper_ && !keeper_->ended() ? open_files_below(keeper_->pid()) : OpenFiles{};
    open_files_seen_ = Clock::now();
    return open_files_.disk_bytes;
  }

  // The same, but as the last look saw it if that was a moment ago: between an answer and the next question, one look
  // is enough.
  std::uint64_t recent_unlinked_bytes() const {
    return Clock::now() - open_files_seen_ < kSampleIntervalMin ? open_files_.disk_bytes : unlinked_bytes();
  }

  // Files without a name first: one that is unlinked meanwhile must not count twice.
  std::uint64_t disk_bytes(const ProcessLimits& limits, std::uint64_t enough_bytes) const {
    return with_directories(unlinked_bytes(), directories(limits), enough_bytes);
  }

  // Those that count. A contained child may write anywhere below the case root.
  std::vector<std::filesystem::path> directories(const ProcessLimits& limits) const {
    std::vector<std::filesystem::path> all = {temporary_.path()};
    if (root_) all.push_back(root_->path());
    const std::filesystem::path& out = limits.out_directory;
    const bool counted = out.empty() || (root_ && out.parent_path() == root_->path());
    if (!counted) all.push_back(out);
    return all;
  }

  std::uint64_t with_directories(std::uint64_t bytes, const std::vector<std::filesystem::path>& all,
                                 std::uint64_t enough_bytes) const {
    for (const std::filesystem::path& directory : all) {
      if (bytes > enough_bytes) break;
      const std::uint64_t inside_bytes = disk_bytes_below(directory, enough_bytes - bytes);
      if (inside_bytes == kTooDeep) return kTooDeep;
      bytes += inside_bytes;
    }
    return bytes;
  }

  // What lies there already does not count.
  void begin_disk(const ProcessLimits& limits) {
    disk_before_bytes_ =
        std::min(with_directories(recent_unlinked_bytes(), directories(limits), kTooDeep - 1), kTooDeep - 1);
    next_disk_look_ = Clock::now() + kDiskIntervalMin;
  }

  void note_disk(const ProcessLimits& limits) {
    const auto began = Clock::now();
    const std::uint64_t growth_max_bytes = std::min(limits.disk_max_bytes, kTooDeep - 1 - disk_before_bytes_);
    const std::uint64_t enough_bytes = disk_before_bytes_ + growth_max_bytes;
    std::uint64_t bytes = disk_bytes(limits, enough_bytes);
    // A file that got a name meanwhile (O_TMPFILE, linkat) counted twice.
    if (bytes > enough_bytes) bytes = std::min(bytes, disk_bytes(limits, enough_bytes));
    const std::uint64_t grown_bytes = bytes == kTooDeep ? kTooDeep : bytes - std::min(bytes, disk_before_bytes_);
    result_.disk_peak_bytes = std::max(result_.disk_peak_bytes, grown_bytes);
    result_.files_peak = std::max(result_.files_peak, open_files_.descriptors);
    // As for memory, however many files there are.
    const auto looked = Clock::now();
    next_disk_look_ = looked + std::max<std::chrono::nanoseconds>(kDiskIntervalMin, 10 * (looked - began));
  }

  // However many processes there are, most of the time goes into something else.
  void look_at_memory(const ProcessLimits& limits) {
    const auto began = Clock::now();
    note_use(limits);
    const auto looked = Clock::now();
    next_memory_look_ = looked + 3 * (looked - began);
  }

  ProcessResult end(const ProcessLimits& limits, std::optional<ProcessEnd> broken) {
    result_.elapsed = Clock::now() - started_;
    note_taken();
    collect();
    note_disk(limits);
    if (!broken && !broken_limit(limits)) {
      for (const std::filesystem::path& directory : directories(limits)) settle_files_below(directory);
      note_disk(limits);
    }
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
    // A second line, or an answer to half a question, is unrequested. Keeps it, so that this is no answer.
    if (searched_bytes_ + 1 == result_.stdout_text.size() && unsent_.empty()) result_.stdout_text.pop_back();
    return std::move(result_);
  }

  // Waits for output, the end of the child or the time of the next sample. Returns whether the child has ended.
  bool wait_for_event() {
    // A negative descriptor is left out.
    const bool piece_lies_there = room_bytes() == 0;
    const int writable = (unsent_.empty() && !feed_) || piece_lies_there ? -1 : stdin_.get();
    std::array<pollfd, 4> events = {{{keeper_->notice_fd(), POLLIN, 0},
                                     {stdout_.get(), POLLIN, 0},
                                     {stderr_.get(), POLLIN, 0},
                                     {writable, POLLOUT, 0}}};
    const auto interval = piece_lies_there ? kPieceInterval
                                           : std::clamp<std::chrono::nanoseconds>(
                                                 (Clock::now() - started_) / 8, kSampleIntervalMin, kSampleIntervalMax);
    const timespec timeout = {0, interval.count()};
    if (::ppoll(events.data(), events.size(), &timeout, nullptr) < 0 && errno != EINTR) fail_call("ppoll");
    return events[0].revents != 0;
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
      fail_call("read from the adapter");
    }
    return std::nullopt;
  }

  std::optional<ProcessEnd> broken_limit(const ProcessLimits& limits) const {
    if (result_.rss_peak_bytes > limits.rss_max_bytes) return ProcessEnd::kMemoryBroken;
    if (result_.stdout_text.size() > limits.stdout_max_bytes) return ProcessEnd::kOutputBroken;
    if (result_.disk_peak_bytes > limits.disk_max_bytes) return ProcessEnd::kDiskBroken;
    if (result_.threads_peak > limits.threads_max || result_.files_peak > limits.files_max) {
      return ProcessEnd::kCountBroken;
    }
    if (feed_ && result_.stdin_taken_bytes > feed_->taken_max_bytes) return ProcessEnd::kInputBroken;
    if (!keeper_->ended() && Clock::now() - started_ > limits.elapsed_max) return ProcessEnd::kTimedOut;
    return std::nullopt;
  }

  // Kills all that is left, and takes what the kernel knows of it.
  void collect() {
    const Keeper::Ended ended = keeper_->end();
    if (ended.status) set_status(*ended.status);
    // Up to its exec the child was a copy of this process, and the kernel's peak counts that too: a peak no larger than
    // this process says nothing about the program, except that it did not use more.
    if (ended.rusage_peak_bytes > runner_rss_bytes_) {
      result_.rss_peak_bytes = std::max(result_.rss_peak_bytes, ended.rusage_peak_bytes);
    }
    result_.rss_bound_bytes = std::max(result_.rss_peak_bytes, ended.rusage_peak_bytes);
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

  // These outlive the processes that write to them.
  const ScratchDirectory temporary_;
  const std::shared_ptr<const CaseRoot> root_;  // of a contained child
  std::optional<Keeper> keeper_;
  std::uint64_t runner_rss_bytes_ = 0;
  Clock::time_point started_;
  Clock::time_point next_memory_look_;
  Clock::time_point next_disk_look_;
  std::uint64_t disk_before_bytes_ = 0;
  mutable OpenFiles open_files_;  // as last seen
  mutable Clock::time_point open_files_seen_;
  std::string line_;
  std::string_view unsent_;
  std::size_t searched_bytes_ = 0;
  const Feed* feed_ = nullptr;
  std::uint64_t given_bytes_ = 0;
  Descriptor stdin_;
  Descriptor stdout_;
  Descriptor stderr_;
  ProcessResult result_;
};

ProcessResult run_process(const std::vector<std::string>& argv, const ProcessLimits& limits,
                          const std::atomic<bool>& cancelled, const Feed* feed, const Containment* containment) {
  return Child(argv, feed ? Stdin::kPipe : Stdin::kNull, limits, containment).finish(limits, cancelled, feed);
}

Server::Server(const std::vector<std::string>& argv, const std::atomic<bool>& cancelled, const Containment* containment)
    : child_(std::make_unique<Child>(argv, Stdin::kPipe, ProcessLimits{}, containment)), cancelled_(cancelled) {}

Server::~Server() {
  tell_failure_of([&] { end(); });
}

std::optional<ProcessResult> Server::end() { return child_->dismiss(); }

ProcessResult Server::exchange(std::string_view line, const ProcessLimits& limits) {
  return child_->exchange(line, limits, cancelled_);
}

std::uint64_t Server::rss_bytes() const { return child_->rss_bytes(); }

std::uint64_t Server::disk_bytes(std::uint64_t enough_bytes) const { return child_->temporary_bytes(enough_bytes); }

bool Server::ready() const { return child_->ready(); }

}  // namespace tzmark::conformance
