// Storage that takes a time for each read, for tests with more ranks than cores, and a rank of MPI for which it takes
// longer: LD_PRELOAD puts it before the C library. Like a disk that reads ahead, it begins a read when the one before
// has ended, so that it does not make a program slower that waits a little for a core between two reads.
// TZMARK_TEST_READ_US is the time in microseconds, TZMARK_TEST_SLOW_RANK names the rank, and TZMARK_TEST_SLOWNESS says
// how much longer: 0.3 for 1.3 times as long.
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace {

double number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atof(text);
}

bool is_slow() {
  const char* const wanted = std::getenv("TZMARK_TEST_SLOW_RANK");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return wanted != nullptr && rank != nullptr && std::strcmp(wanted, rank) == 0;
}

std::chrono::duration<double> read_time() {
  const double seconds = number_of("TZMARK_TEST_READ_US") / 1e6;
  return std::chrono::duration<double>(is_slow() ? seconds * (1 + number_of("TZMARK_TEST_SLOWNESS")) : seconds);
}

// When a read that is asked for now has ended.
std::chrono::steady_clock::time_point end_of_read() {
  using Clock = std::chrono::steady_clock;
  static const Clock::duration time = std::chrono::duration_cast<Clock::duration>(read_time());
  static thread_local Clock::time_point free;
  const Clock::time_point now = Clock::now();
  free = (now - free < time / 4 ? free : now) + time;
  return free;
}

}  // namespace

extern "C" ssize_t pread64(int descriptor, void* memory, std::size_t bytes, off64_t offset) {
  using Read = ssize_t (*)(int, void*, std::size_t, off64_t);
  static const auto next = reinterpret_cast<Read>(::dlsym(RTLD_NEXT, "pread64"));
  constexpr std::size_t kLargeBytes = 1 << 20;
  if (bytes >= kLargeBytes) std::this_thread::sleep_until(end_of_read());
  return next(descriptor, memory, bytes, offset);
}

extern "C" ssize_t pread(int descriptor, void* memory, std::size_t bytes, off_t offset) {
  return pread64(descriptor, memory, bytes, offset);
}
