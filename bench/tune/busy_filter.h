// Decides which samples count: undisturbed ones, and all of them on a machine that is always busy.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>

namespace tzmark::bench {

// Of a whole run. Looks at nothing that was measured, so that it prefers no result. For one thread at a time.
class BusyFilter {
 public:
  // Whether a sample counts. The machine is busy while more than three quarters of the recent samples were disturbed:
  // of the last 40, or of those of the last six seconds, which must be five. length: of the sample, preparations
  // included.
  bool counts(bool is_disturbed, std::chrono::nanoseconds length);

  std::size_t samples() const { return samples_; }
  std::size_t disturbed_samples() const { return disturbed_samples_; }
  bool was_busy() const { return was_busy_; }

 private:
  struct Seen {
    bool is_disturbed = false;
    std::chrono::nanoseconds length{};
  };

  std::deque<Seen> recent_;
  std::chrono::nanoseconds recent_time_{};
  std::size_t samples_ = 0, disturbed_samples_ = 0;
  bool was_busy_ = false;
};

}  // namespace tzmark::bench
