// Worker threads: as many as the system starts.
#pragma once

#include <cstddef>
#include <system_error>
#include <thread>
#include <vector>

namespace tzmark::conformance {

// Calls work in up to count threads, and waits for them. Limits of processes (pids.max, ulimit -u) count threads too:
// where none starts, the calling thread does the work. REQUIRES: work does not throw.
template <typename Work>
void run_on_threads(std::size_t count, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.emplace_back([&work] { work(); });
  } catch (const std::system_error&) {
    if (threads.empty()) work();
  }
}

}  // namespace tzmark::conformance
