// Runs one child process under limits and says how it ended.
//
// The child leads a process group of its own; whatever that group still does when the child has ended, or has broken a
// limit, is killed and reaped, so that nothing of it outlives the call. The calling process becomes the reaper of
// orphans below it (PR_SET_CHILD_SUBREAPER) the first time.
//
// Memory is the resident memory of the largest process below the child: a sum would count what parent and child share
// twice. It is sampled while the child runs, and the kernel's own peak is looked at when it has ended, because an
// address-space limit would turn a blow-up into a tidy error message.
//
// Thread-safety: run_process may run in several threads at once. The child dies with the thread that started it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace tzmark::conformance {

struct ProcessLimits {
  std::chrono::nanoseconds elapsed_max = std::chrono::hours(1);
  std::uint64_t rss_max_bytes = std::numeric_limits<std::uint64_t>::max();
  std::size_t stdout_max_bytes = 64u << 20;
  std::size_t stderr_tail_max_bytes = 64u << 10;
};

enum class ProcessEnd {
  kExited,        // by itself
  kSignaled,      // by a signal that this runner did not send
  kTimedOut,      // killed: ran past elapsed_max
  kMemoryBroken,  // used more than rss_max_bytes; killed unless it had ended already
  kOutputBroken,  // killed: printed more than stdout_max_bytes
  kCancelled,     // killed: the caller wants to stop
};

struct ProcessResult {
  ProcessEnd end = ProcessEnd::kExited;
  int exit_status = 0;  // of kExited
  int signal = 0;       // of kSignaled
  std::string stdout_text;
  std::string stderr_tail;  // the last bytes of stderr
  std::chrono::nanoseconds elapsed{0};
  // What it was seen to use; 0 if it ended before it could be looked at, and used less than this process.
  std::uint64_t rss_peak_bytes = 0;
  // What it did not use more than, which is never below what this process used when it started the child.
  std::uint64_t rss_bound_bytes = 0;
};

// REQUIRES: argv is not empty. stdin is /dev/null. Throws EnvironmentError if the program cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv, const ProcessLimits& limits,
                          const std::atomic<bool>& cancelled);

}  // namespace tzmark::conformance
