// A rank of a program of MPI whose reads take longer, for tests of what should find it: LD_PRELOAD puts it before the C
// library. TZMARK_TEST_SLOW_RANK names the rank, and TZMARK_TEST_SLOWNESS how much longer each of its reads takes: 0.3
// for 1.3 times as long.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

namespace {

using Clock = std::chrono::steady_clock;

bool is_slow() {
  static const bool slow = [] {
    const char* const wanted = std::getenv("TZMARK_TEST_SLOW_RANK");
    const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
    return wanted != nullptr && rank != nullptr && std::strcmp(wanted, rank) == 0;
  }();
  return slow;
}

double slowness() {
  const char* const text = std::getenv("TZMARK_TEST_SLOWNESS");
  return text == nullptr ? 0 : std::atof(text);
}

}  // namespace

extern "C" ssize_t pread64(int descriptor, void* memory, std::size_t bytes, off64_t offset) {
  using Read = ssize_t (*)(int, void*, std::size_t, off64_t);
  static const auto next = reinterpret_cast<Read>(::dlsym(RTLD_NEXT, "pread64"));
  const auto begin = Clock::now();
  const ssize_t done = next(descriptor, memory, bytes, offset);
  if (is_slow()) {
    // Working, since a sleep of less than 50 us is none.
    const std::chrono::duration<double> more = (Clock::now() - begin) * slowness();
    for (const auto end = Clock::now() + more; Clock::now() < end;) {
    }
  }
  return done;
}

extern "C" ssize_t pread(int descriptor, void* memory, std::size_t bytes, off_t offset) {
  return pread64(descriptor, memory, bytes, offset);
}
