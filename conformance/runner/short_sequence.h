// Finds a short sequence after which something fails, among many steps of which few matter.
//
// Thread-safety: a pure function, but for what it calls.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

namespace tzmark::conformance {

struct ShortSequence {
  std::vector<std::size_t> steps;  // in their order; empty if it does not fail after all of them
  bool shortest = false;           // no single step can be left out; else the time ran out
};

// Whether it fails after these of the steps, in this order.
using FailsAfter = std::function<bool(const std::vector<std::size_t>& steps)>;

// Tries suffixes of the steps 0 to count - 1 first, each twice as long as the one before, and then leaves out what is
// not needed. Tries nothing more after elapsed_max. REQUIRES: it does not fail after no step, and count is not 0.
ShortSequence find_short_sequence(std::size_t count, const FailsAfter& fails_after,
                                  std::chrono::nanoseconds elapsed_max);

}  // namespace tzmark::conformance
