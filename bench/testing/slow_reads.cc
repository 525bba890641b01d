// Storage that takes a time for each read, for tests with more ranks than cores, and a rank of MPI for which it takes
// longer: LD_PRELOAD puts it before the C library. It reads ahead from when a file is opened, so that it does not make
// a program slower that waits for a core between two reads.
// TZMARK_TEST_READ_US is the time in microseconds, TZMARK_TEST_SLOW_RANK names the rank, and TZMARK_TEST_SLOWNESS says
// how much longer: 0.3 for 1.3 times as long.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
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

using Clock = std::chrono::steady_clock;

// When the storage has what was read last. A rank of the test has one thread that reads.
std::atomic<Clock::time_point> g_ready;

}  // namespace

extern "C" ssize_t pread64(int descriptor, void* memory, std::size_t bytes, off64_t offset) {
  using Read = ssize_t (*)(int, void*, std::size_t, off64_t);
  static const auto next = reinterpret_cast<Read>(::dlsym(RTLD_NEXT, "pread64"));
  constexpr std::size_t kLargeBytes = 1 << 20;
  static const Clock::duration time = std::chrono::duration_cast<Clock::duration>(read_time());
  if (bytes >= kLargeBytes) {
    g_ready = g_ready.load() + time;
    std::this_thread::sleep_until(g_ready.load());
  }
  return next(descriptor, memory, bytes, offset);
}

extern "C" ssize_t pread(int descriptor, void* memory, std::size_t bytes, off_t offset) {
  return pread64(descriptor, memory, bytes, offset);
}

extern "C" int open(const char* name, int flags, ...) {
  using Open = int (*)(const char*, int, ...);
  static const auto next = reinterpret_cast<Open>(::dlsym(RTLD_NEXT, "open"));
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  g_ready = Clock::now();
  return next(name, flags, mode);
}

// What the C library's checks make of a call without a mode.
extern "C" int __open_2(const char* name, int flags) { return open(name, flags); }
