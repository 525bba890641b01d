// Moves new threads between cores.
#include "tzmark/threads.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>

namespace tzmark {

unsigned core_count() {
  static const unsigned count = std::max(1U, std::thread::hardware_concurrency());
  return count;
}

void separate_from_caller(std::jthread& thread) noexcept {
  cpu_set_t usable;
  const int here = ::sched_getcpu();
  // Fails on machines with more than 1,024 cores, where two threads seldom meet.
  if (here < 0 || ::sched_getaffinity(0, sizeof usable, &usable) != 0) return;
  cpu_set_t others = usable;
  CPU_CLR(static_cast<unsigned>(here), &others);
  if (CPU_COUNT(&others) == 0) return;
  ::pthread_setaffinity_np(thread.native_handle(), sizeof others, &others);
  ::pthread_setaffinity_np(thread.native_handle(), sizeof usable, &usable);
}

}  // namespace tzmark
