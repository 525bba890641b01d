// Compute steps of constant work: concurrent activity shows as longer steps.
//
// Thread-safety: for one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "tzmark/computation.h"

namespace tzmark::bench {

class Steps {
 public:
  // threads compute at the same time, each its own steps. Calibrates the work per step, so the machine should be idle.
  Steps(double step_ms, unsigned threads) : step_(step_ms), threads_(threads) {}

  // Computes while action runs in the calling thread. Returns the duration, in nanoseconds, of each step that began and
  // ended meanwhile.
  std::vector<std::uint64_t> during(const std::function<void()>& action) const;

 private:
  Computation step_;
  unsigned threads_;
};

}  // namespace tzmark::bench
