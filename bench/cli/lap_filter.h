// Decides which laps count: undisturbed ones do, and all of them on a machine that is always busy.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <string>

#include "harness/disturbance.h"

namespace tzmark::bench {

// A machine on which most laps are disturbed: they count from there on, and results say so.
struct ContestConditions {
  std::size_t laps = 0;
  std::size_t disturbed_laps = 0;
  bool was_busy = false;
};

// One line; empty if no lap was disturbed.
std::string conditions_text(const ContestConditions& conditions);

// For one thread at a time.
class LapFilter {
 public:
  explicit LapFilter(std::function<bool(const Disturbance&)> is_disturbed) : is_disturbed_(std::move(is_disturbed)) {}

  // Adds a lap.
  void add(const Disturbance& lap);
  // Whether what a ratio takes from the latest lap, with this disturbance, counts. Looks at nothing that was measured,
  // so that it prefers no result.
  bool counts(const Disturbance& part) const { return is_busy_ || !is_disturbed_(part); }

  const ContestConditions& conditions() const { return conditions_; }

 private:
  const std::function<bool(const Disturbance&)> is_disturbed_;
  std::deque<bool> recent_;
  bool is_busy_ = false;
  ContestConditions conditions_;
};

}  // namespace tzmark::bench
