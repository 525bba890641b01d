// The threads of a measurement: all of them start, or the measurement fails.
#pragma once

#include <cstddef>
#include <exception>
#include <thread>
#include <vector>

#include "harness/shortages.h"
#include "tzmark/threads.h"

namespace tzmark::bench {

// Starts count threads, of which thread i calls a copy of work with i; they are joined when the result is destroyed. If
// the system refuses one, calls give_up with the number of missing threads, so that those that run can end, joins them
// and throws TZE-ENV-006. REQUIRES: work does not throw.
template <typename Work, typename GiveUp>
std::vector<std::jthread> start_all(std::size_t count, const Work& work, const GiveUp& give_up) {
  std::vector<std::jthread> threads;
  threads.reserve(count);
  try {
    while (threads.size() < count) {
      threads.emplace_back(work, threads.size());
      if (threads.size() < core_count()) separate_from_caller(threads.back());
    }
  } catch (const std::exception&) {
    const std::size_t missing = count - threads.size();
    give_up(missing);
    throw missing_threads(missing);
  }
  return threads;
}

}  // namespace tzmark::bench
