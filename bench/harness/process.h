// Child processes that end: with the object that started them, by their own, or at their deadline.
//
// A child is in a process group of its own, and the group is killed and the child reaped whatever happens; no zombie
// stays. For one thread at a time. Errors: TZE-AVL-001 if the program cannot be started, TZE-ENV-006 if the system
// refuses what a process needs.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/paths.h"

namespace tzmark::bench {

using Clock = std::chrono::steady_clock;

// A nameless file for what a child writes that nobody waits for, as its stderr.
class OutputFile {
 public:
  OutputFile();

  int descriptor() const { return ::fileno(file_.get()); }
  std::string text() const;
  // The end of the text on one line, for error messages; "" if nothing was written.
  std::string tail() const;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_;
};

class Child {
 public:
  // Starts argv[0], looked for in PATH, with these descriptors as its standard ones. The caller keeps them.
  Child(const std::vector<std::string>& argv, int stdin_fd, int stdout_fd, int stderr_fd);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Waits for its end until the deadline. Returns how it ended ("exit status 1", "signal 9"; "" for status 0), or
  // nothing if it still runs.
  std::optional<std::string> wait_until(Clock::time_point deadline);
  void kill();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  Descriptor exit_notice_;
  std::optional<std::string> end_;
};

struct CommandResult {
  std::string end;     // "" for exit status 0, else what wait_until says, or "no end after 5 s"
  std::string output;  // of stdout
  std::string error_tail;
};

// Runs a command to its end without input; past the timeout it is killed.
CommandResult run_command(const std::vector<std::string>& argv, std::chrono::milliseconds timeout);

}  // namespace tzmark::bench
