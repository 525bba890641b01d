// Helper threads: as many as the system starts, which may be none.
//
// Limits of processes (pids.max, ulimit -u) count threads too. Callers do a share of the work themselves, and wait for
// no thread that did not start.
#pragma once

#include <cstddef>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "bytes/count_shortage.h"

namespace tzmark {

// Starts up to count threads, of which thread i calls a copy of work with i, and returns those that started: the first
// ones. Counts the others as missing. The threads are joined when the result goes. REQUIRES: work does not throw.
template <typename Work>
std::vector<std::jthread> start_threads(std::size_t count, const Work& work) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) threads.emplace_back([work, i = threads.size()] { work(i); });
  } catch (const std::system_error&) {
    count_missing_threads(count - threads.size());
  } catch (const std::bad_alloc&) {
    count_missing_threads(count - threads.size());
  }
  return threads;
}

}  // namespace tzmark
