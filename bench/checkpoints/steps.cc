// Simulated compute steps; see steps.h.
#include "checkpoints/steps.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "harness/threads.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Each multiplication depends on the previous one, so the load is on the core and never on memory.
void multiply(std::uint64_t times) {
  std::uint64_t value = times;
  for (std::uint64_t i = 0; i < times; ++i) value = value * 0x9E3779B97F4A7C15 + i;
  // Keeps the compiler from removing the loop.
  volatile const std::uint64_t sink = value;
  static_cast<void>(sink);
}

}  // namespace

Steps::Steps(double step_ms, unsigned threads) : threads_(threads) {
  constexpr std::uint64_t kProbe = 1 << 22;
  auto fastest = Clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    const auto begin = Clock::now();
    multiply(kProbe);
    fastest = std::min(fastest, Clock::now() - begin);
  }
  const double probe_ms = std::chrono::duration<double, std::milli>(fastest).count();
  multiplications_ = static_cast<std::uint64_t>(step_ms / probe_ms * static_cast<double>(kProbe));
}

std::vector<std::uint64_t> Steps::during(const std::function<void()>& action) const {
  std::atomic<bool> stop = false;
  std::vector<std::vector<std::uint64_t>> of_threads(threads_);
  {
    const auto compute = [&](std::size_t i) {
      while (!stop) {
        const auto begin = Clock::now();
        multiply(multiplications_);
        const auto end = Clock::now();
        if (!stop) of_threads[i].push_back(static_cast<std::uint64_t>((end - begin) / std::chrono::nanoseconds(1)));
      }
    };
    const auto threads = start_all(threads_, compute, [&](std::size_t) { stop = true; });
    try {
      action();
    } catch (...) {
      stop = true;
      throw;
    }
    stop = true;
  }
  std::vector<std::uint64_t> all;
  for (const auto& elapsed_ns : of_threads) all.insert(all.end(), elapsed_ns.begin(), elapsed_ns.end());
  return all;
}

}  // namespace tzmark::bench
