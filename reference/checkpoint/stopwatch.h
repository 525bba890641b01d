// Nanoseconds from one moment to the next.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

namespace tzmark::checkpoint {

class Stopwatch {
 public:
  // Since it was made, or last asked.
  std::uint64_t lap_ns() {
    const auto now = std::chrono::steady_clock::now();
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(now - std::exchange(start_, now)).count());
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tzmark::checkpoint
