// Simulated compute steps; see steps.h.
#include "checkpoints/steps.h"

#include <atomic>
#include <chrono>

#include "harness/threads.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

std::vector<std::uint64_t> Steps::during(const std::function<void()>& action) const {
  std::atomic<bool> stop = false;
  std::vector<std::vector<std::uint64_t>> of_threads(threads_);
  {
    const auto compute = [&](std::size_t i) {
      while (!stop) {
        const auto begin = Clock::now();
        step_.run();
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
