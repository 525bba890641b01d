// A line on stderr that counts up while a command runs, if stderr is a terminal.
//
// Thread-safety: one thread at a time.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstddef>

#include "runner/console.h"

namespace tzmark::conformance {

class ProgressLine {
 public:
  explicit ProgressLine(std::size_t total) : total_(total), shown_(::isatty(STDERR_FILENO) == 1) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() {
    if (shown_) print_to_stderr("\r\033[K");
  }
  void operator()(std::size_t done) const {
    if (shown_) print_to_stderr(fmt::format("\r{}/{}", done, total_));
  }

 private:
  std::size_t total_;
  bool shown_;
};

}  // namespace tzmark::conformance
