// Runs a child process under limits and reports how it ended: for one question (run_process), or for many, one line
// each (Server).
//
// Whatever the child starts is killed and reaped when it has ended or has broken a limit, in whatever group or session
// it is (keeper.h), so that nothing of it outlives the call.
//
// The child has a temporary directory of its own, which TMPDIR names and which is removed with all that is in it after
// the child's end. What lies there, and what is open without a name, is looked at from time to time, and once more at
// the end. Files that lie elsewhere are not bounded; a child that is contained (restrict.h) cannot write there.
//
// Memory is the resident memory of the largest process below the child, or that of all of them together if it is more:
// there, a page that several share counts once, and files in memory count. It is sampled while the child runs, and the
// kernel's own peak of each process is looked at when it has ended, because an address-space limit would turn a blow-up
// into a tidy error message.
//
// Thread-safety: run_process may run in several threads at once, and each Server belongs to one thread at a time. A
// child dies with the thread that started it. Both ignore SIGPIPE in the whole process.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/restrict.h"

namespace tzmark::conformance {

struct ProcessLimits {
  std::chrono::nanoseconds elapsed_max = std::chrono::hours(1);
  std::uint64_t rss_max_bytes = std::numeric_limits<std::uint64_t>::max();
  // What the temporary directory, out_directory (directory_tree.h) and the files without a name (unlinked_files.h) may
  // grow by.
  std::uint64_t disk_max_bytes = std::numeric_limits<std::uint64_t>::max();
  std::filesystem::path out_directory = {};  // of the files that it is asked about; empty if it is not to count
  std::uint64_t threads_max = std::numeric_limits<std::uint64_t>::max();  // of all its processes
  std::uint64_t files_max = std::numeric_limits<std::uint64_t>::max();    // open at once in all its processes
  std::size_t stdout_max_bytes = 64u << 20;
  std::size_t stderr_tail_max_bytes = 64u << 10;
};

enum class ProcessEnd {
  kLost,          // unknown: the process that waits for it was killed
  kExited,        // by itself
  kSignaled,      // by a signal that did not come from this runner
  kTimedOut,      // killed: ran past elapsed_max
  kMemoryBroken,  // used more than rss_max_bytes; killed unless it had ended already
  kOutputBroken,  // killed: printed more than stdout_max_bytes
  kCancelled,     // killed: the caller wants to stop
  kAnswered,      // of a Server: one line came, and the process lives on
  kInputBroken,   // killed: took more than taken_max_bytes from its stdin
  kDiskBroken,    // wrote more than disk_max_bytes; killed unless it had ended already
  kCountBroken,   // killed: had more than threads_max threads, or files_max open files
};

// What a process reads on its stdin: nothing, or bytes, and after them the end of the file or zeros without end.
struct Feed {
  std::span<const std::byte> bytes;
  bool endless = false;
  std::uint64_t taken_max_bytes = std::numeric_limits<std::uint64_t>::max();
  // Gives odd numbers of bytes (odd_sizes.h), each when the one before has been read, so that reads are short.
  std::optional<std::uint64_t> piece_seed = std::nullopt;
};

struct ProcessResult {
  ProcessEnd end = ProcessEnd::kLost;
  int exit_status = 0;      // of kExited
  int signal = 0;           // of kSignaled
  std::string stdout_text;  // of kAnswered: the line, without its end
  std::string stderr_tail;  // the last bytes of stderr
  // What it took from its feed. Bytes that are still in the pipe count only if the feed has ended.
  std::uint64_t stdin_taken_bytes = 0;
  std::chrono::nanoseconds elapsed{0};
  // The observed peak; 0 if it ended before the first sample and used less than this process.
  std::uint64_t rss_peak_bytes = 0;
  // An upper bound of its usage, never below what this process used when it started the child.
  std::uint64_t rss_bound_bytes = 0;
  std::uint64_t disk_peak_bytes = 0;  // observed growth of its directories; kTooDeep as in directory_tree.h
  std::uint64_t threads_peak = 0;     // observed, as are the files
  std::uint64_t files_peak = 0;
  // Limits that it ran under; nothing where it had none.
  std::optional<std::chrono::nanoseconds> elapsed_max;
  std::optional<std::uint64_t> rss_max_bytes;
  std::optional<std::uint64_t> disk_max_bytes;
  std::optional<std::uint64_t> threads_max;
  std::optional<std::uint64_t> files_max;
};

// REQUIRES: argv is not empty. stdin is /dev/null, or a pipe if there is a feed. With a containment, the program may
// write to its temporary directory, to the case root of this thread (scratch_directory.h), and to what is permitted.
// Throws EnvironmentError if the program cannot be started, or left processes that cannot be killed.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessLimits& limits,
                          const std::atomic<bool>& cancelled, const Feed* feed = nullptr,
                          const Containment* containment = nullptr);

class Child;

// A child process that answers each line on its stdin with one line on its stdout. Its destructor does what end() does.
class Server {
 public:
  // As run_process. Throws EnvironmentError if the program cannot be started.
  Server(const std::vector<std::string>& argv, const std::atomic<bool>& cancelled,
         const Containment* containment = nullptr);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Sends a line, which must not hold a newline, and waits for the answer, under limits that count from here. Whatever
  // else happens than kAnswered is the end of the process, and of what this object can do. The result's
  // stdin_taken_bytes tell whether the process read anything of the line. Throws EnvironmentError as run_process does.
  ProcessResult exchange(std::string_view line, const ProcessLimits& limits);

  // Resident memory of its largest process right now; 0 if it has ended.
  std::uint64_t rss_bytes() const;

  // What lies in its temporary directory, and what it has open without a name; no more than enough_bytes are counted.
  std::uint64_t disk_bytes(std::uint64_t enough_bytes) const;

  // Whether it is running, and has written nothing unrequested.
  bool ready() const;

  // Ends its stdin, and gives it a second to end by itself, so that it can clean up. Returns how it ended, or nothing
  // if it had to be killed or an exchange has told already. Throws EnvironmentError as run_process does.
  std::optional<ProcessResult> end();

 private:
  std::unique_ptr<Child> child_;
  const std::atomic<bool>& cancelled_;
};

}  // namespace tzmark::conformance
