// A fixed amount of computing, so that any disturbance shows in its time: a step of a simulated training run.
//
// Thread-safety: const calls are thread-safe. Errors: none.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tzmark {

class Computation {
 public:
  // Calibrates the amount, so the machine should be idle. ms: in one thread; 0 = none.
  explicit Computation(double ms) {
    using Clock = std::chrono::steady_clock;
    if (ms <= 0) return;
    constexpr std::uint64_t kProbe = 1 << 22;
    auto fastest = Clock::duration::max();
    for (int i = 0; i < 5; ++i) {
      const auto begin = Clock::now();
      multiply(kProbe);
      fastest = std::min(fastest, Clock::now() - begin);
    }
    const double probe_ms = std::chrono::duration<double, std::milli>(fastest).count();
    multiplications_ = static_cast<std::uint64_t>(ms / probe_ms * static_cast<double>(kProbe));
  }

  void run() const { multiply(multiplications_); }

 private:
  // Each multiplication depends on the previous one, so the load is on the core and never on memory.
  static void multiply(std::uint64_t times) {
    std::uint64_t value = times;
    for (std::uint64_t i = 0; i < times; ++i) value = value * 0x9E3779B97F4A7C15 + i;
    // Keeps the compiler from removing the loop.
    volatile const std::uint64_t sink = value;
    static_cast<void>(sink);
  }

  std::uint64_t multiplications_ = 0;
};

}  // namespace tzmark
