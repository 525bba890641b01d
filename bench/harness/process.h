// Child processes that always end: by themselves, at their deadline, or with the object that started them.
//
// Each child has its own process group, which is killed in every case, and is reaped; no zombie remains. For one thread
// at a time. Errors: TZE-AVL-001 if the program cannot be started, TZE-ENV-006 if a system call fails.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tzmark/descriptor.h"

namespace tzmark::bench {

using Clock = std::chrono::steady_clock;

// An unnamed temporary file that collects output of a child, such as its stderr.
class OutputFile {
 public:
  OutputFile();

  int descriptor() const { return ::fileno(file_.get()); }
  std::string text() const;
  // Returns the end of the text on one line, for error messages; "" if nothing was written.
  std::string tail() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

class Child {
 public:
  // Starts argv[0], searched in PATH, with copies of these descriptors as its standard streams.
  Child(const std::vector<std::string>& argv, int stdin_fd, int stdout_fd, int stderr_fd);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits until the child ends or the deadline passes. Returns how it ended ("exit status 1", "signal 9"; "" for status
  // 0), or nothing if it still runs.
  std::optional<std::string> wait_until(Clock::time_point deadline);
  void kill();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  Descriptor exit_notice_;
  std::optional<std::string> end_;
};

struct CommandResult {
  std::string end;     // "" for exit status 0, else as wait_until returns it, or "timed out after 5 s"
  std::string output;  // of stdout
  std::string error_tail;
};

// Runs a command without input until it ends, or kills it at the timeout.
CommandResult run_command(const std::vector<std::string>& argv, std::chrono::milliseconds timeout);

}  // namespace tzmark::bench
