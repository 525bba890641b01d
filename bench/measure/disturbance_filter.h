// Decides which laps count: undisturbed ones do, and all of them on a machine that is always busy.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <string>

#include "harness/disturbance.h"

namespace tzmark::bench {

// What the machine was like during a run.
struct MachineConditions {
  std::size_t laps = 0;
  std::size_t disturbed_laps = 0;
  bool was_busy = false;  // most laps were disturbed: they counted from there on, and results say so
};

// One line; empty if no lap was disturbed.
std::string conditions_text(const MachineConditions& conditions);

// Of a whole run, so that a machine that was busy before still is. Looks at nothing that was measured, so that it
// prefers no result. For one thread at a time.
class DisturbanceFilter {
 public:
  explicit DisturbanceFilter(std::function<bool(const Disturbance&)> is_disturbed = bench::is_disturbed)
      : is_disturbed_(std::move(is_disturbed)) {}

  // Adds a lap. The machine is busy while more than three quarters of the recent laps were disturbed: of the last 40,
  // or of those of the last six seconds, which must be five. Laps before the first one count as undisturbed.
  void add(const Disturbance& lap);
  // Whether the latest lap, or a part of it with this disturbance, counts.
  bool counts(const Disturbance& part) const { return is_busy_ || !is_disturbed_(part); }

  bool is_busy() const { return is_busy_; }
  const MachineConditions& conditions() const { return conditions_; }

 private:
  struct Recent {
    bool is_disturbed = false;
    std::chrono::nanoseconds length{};  // preparations included
  };

  const std::function<bool(const Disturbance&)> is_disturbed_;
  std::deque<Recent> recent_;
  std::chrono::nanoseconds recent_time_{};
  bool is_busy_ = false;
  MachineConditions conditions_;
};

}  // namespace tzmark::bench
