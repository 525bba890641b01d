// Work that several threads share.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace tzmark::py {

// Calls work(state) on several threads, each with a State of its own, until it returns false there. The first exception
// ends all and is rethrown.
template <typename State, typename Work>
void run_on_threads(unsigned threads, const Work& work) {
  std::mutex mutex;
  std::exception_ptr error;
  std::atomic<bool> failed = false;
  const auto run = [&] {
    try {
      State state;
      while (!failed && work(state)) {
      }
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
      failed = true;
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      while (others.size() + 1 < threads) others.emplace_back(run);
    } catch (const std::system_error&) {
      // The threads that there are do all the work.
    }
    run();
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace tzmark::py
