// Steps of computing that are always the same, so that what is beside them shows in their time.
//
// Thread-safety: for one thread at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace tzmark::bench {

class Steps {
 public:
  // threads: that compute at the same time, each its own steps. Finds out how much work such a step is, on a machine
  // that should be idle.
  Steps(double step_ms, unsigned threads);

  // Computes while action runs, in the calling thread. Returns how long each step took that began and ended meanwhile,
  // in nanoseconds.
  std::vector<std::uint64_t> beside(const std::function<void()>& action) const;

 private:
  std::uint64_t multiplications_ = 1;
  unsigned threads_;
};

}  // namespace tzmark::bench
