// Worker threads that ask adapters.
//
// Thread-safety: ask_on_threads starts and ends threads of its own.
#pragma once

#include <algorithm>
#include <cstddef>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "runner/adapter.h"

namespace tzmark::conformance {

// Calls work in up to count threads, then ends the processes that served each thread, and waits. Throws the first
// exception that any of them threw. Limits of processes (pids.max, ulimit -u) count threads too: where none starts, the
// calling thread does the work.
template <typename Work>
void ask_on_threads(std::size_t count, std::initializer_list<const Adapter*> adapters, const Work& work) {
  std::mutex mutex;
  std::exception_ptr first_error;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!first_error) first_error = std::current_exception();
    }
  };
  const auto ask = [&] {
    attempt(work);
    attempt([&] {
      for (const Adapter* const adapter : adapters) adapter->end_services();
    });
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(count);
    try {
      while (threads.size() < std::max<std::size_t>(count, 1)) threads.emplace_back(ask);
    } catch (const std::system_error&) {
      if (threads.empty()) ask();
    }
  }
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace tzmark::conformance
