// A progress line on stderr, shown if that is a terminal, or if forced. Any thread may report bytes.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

namespace tzmark::cli {

class ProgressLine {
 public:
  ProgressLine(std::string verb, bool forced);
  // Erases the line.
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void expect(std::uint64_t total_bytes) { total_bytes_ = total_bytes; }
  // Returns what the codec is to call; empty if nothing is shown.
  std::function<void(std::uint64_t)> callback();
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  void add(std::uint64_t bytes);

  const std::string verb_;
  const bool shown_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  Clock::time_point next_draw_{};  // the first report is drawn at once
  std::uint64_t total_bytes_ = 0;
  std::uint64_t done_bytes_ = 0;
  bool drawn_ = false;
};

}  // namespace tzmark::cli
