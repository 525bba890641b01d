// Helper threads, of which the system may start fewer than requested.
//
// Process limits (pids.max, ulimit -u) also count threads. Callers do a share of the work themselves, and do not wait
// for threads that did not start.
#pragma once

#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "tzmark/shortage.h"
#include "tzmark/threads.h"

namespace tzmark {

// Increment the counters of tzmark/shortage.h. Thread-safe.
void count_missing_threads(std::uint64_t threads);
void count_transfer_in_place();

// Starts up to count threads, and returns those that started; thread i calls a copy of work with i. Counts the others
// as missing. Destroying the result joins the threads. REQUIRES: work does not throw.
template <typename Work>
std::vector<std::jthread> start_threads(std::size_t count, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) {
      threads.emplace_back([work, i = threads.size()] { work(i); });
      if (threads.size() < core_count()) separate_from_caller(threads.back());
    }
  } catch (const std::system_error&) {
    count_missing_threads(count - threads.size());
  } catch (const std::bad_alloc&) {
    count_missing_threads(count - threads.size());
  }
  return threads;
}

}  // namespace tzmark
