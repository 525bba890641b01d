// Preloaded into tzmark by the crash tests: counts the calls that change something on disk, in all threads, and kills
// the process at one of them.
//
// TZMARK_TEST_KILL_AT=N    SIGKILL in the place of call N, counted from 1. N covers "behind call N - 1" as well.
// TZMARK_TEST_STOP_AT=N    SIGSTOP in front of call N, which is made when the process is continued.
// TZMARK_TEST_COUNT_TO=F   At exit, the number of calls is written to the file F.
//
// Only calls that tzmark itself makes come by here; crash_test.py checks that it makes no other.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

// Of liburing, whose header would bring its own inline functions.
struct io_uring;

namespace {

std::atomic<long> calls = 0;

long number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atol(text);
}

void count() {
  static const long kill_at = number_in("TZMARK_TEST_KILL_AT");
  static const long stop_at = number_in("TZMARK_TEST_STOP_AT");
  const long call = ++calls;
  if (call == stop_at) ::raise(SIGSTOP);
  // Threads that come later must not overtake the signal.
  while (kill_at != 0 && call >= kill_at) ::kill(::getpid(), SIGKILL);
}

bool is_regular(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISREG(status.st_mode);
}

// What the program would have called without this library.
template <typename Function>
Function* original(const char* name) {
  const auto function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
  if (function == nullptr) ::abort();
  return function;
}

__attribute__((destructor)) void report() {
  const char* const name = std::getenv("TZMARK_TEST_COUNT_TO");
  if (name == nullptr) return;
  std::FILE* const file = std::fopen(name, "w");
  if (file == nullptr || std::fprintf(file, "%ld\n", calls.load()) < 0 || std::fclose(file) != 0) ::abort();
}

}  // namespace

#define ORIGINAL(function) original<decltype(::function)>(#function)

// Only who may create a file gives a mode, and changes something.
#define TAKE_MODE(mode, flags)        \
  if (((flags)&O_CREAT) != 0) {       \
    va_list arguments;                \
    va_start(arguments, flags);       \
    mode = va_arg(arguments, mode_t); \
    va_end(arguments);                \
    count();                          \
  }

extern "C" {

ssize_t pwrite(int fd, const void* bytes, size_t length, off_t offset) {
  count();
  return ORIGINAL(pwrite)(fd, bytes, length, offset);
}

ssize_t pwrite64(int fd, const void* bytes, size_t length, off64_t offset) {
  count();
  return ORIGINAL(pwrite64)(fd, bytes, length, offset);
}

ssize_t pwritev2(int fd, const iovec* parts, int part_count, off_t offset, int flags) {
  count();
  return ORIGINAL(pwritev2)(fd, parts, part_count, offset, flags);
}

// What is submitted may be reads; a kill there is one more moment to survive.
int io_uring_submit(io_uring* ring) {
  count();
  return ORIGINAL(io_uring_submit)(ring);
}

int io_uring_submit_and_wait(io_uring* ring, unsigned completions) {
  count();
  return ORIGINAL(io_uring_submit_and_wait)(ring, completions);
}

ssize_t write(int fd, const void* bytes, size_t length) {
  if (is_regular(fd)) count();
  return ORIGINAL(write)(fd, bytes, length);
}

int ftruncate(int fd, off_t length) noexcept {
  count();
  return ORIGINAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length) noexcept {
  count();
  return ORIGINAL(ftruncate64)(fd, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
  count();
  return ORIGINAL(fallocate)(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  count();
  return ORIGINAL(fallocate64)(fd, mode, offset, length);
}

int fsync(int fd) {
  count();
  return ORIGINAL(fsync)(fd);
}

int fdatasync(int fd) {
  count();
  return ORIGINAL(fdatasync)(fd);
}

int open(const char* name, int flags, ...) {
  mode_t mode = 0;
  TAKE_MODE(mode, flags);
  return ORIGINAL(open)(name, flags, mode);
}

int open64(const char* name, int flags, ...) {
  mode_t mode = 0;
  TAKE_MODE(mode, flags);
  return ORIGINAL(open64)(name, flags, mode);
}

int openat(int folder, const char* name, int flags, ...) {
  mode_t mode = 0;
  TAKE_MODE(mode, flags);
  return ORIGINAL(openat)(folder, name, flags, mode);
}

int openat64(int folder, const char* name, int flags, ...) {
  mode_t mode = 0;
  TAKE_MODE(mode, flags);
  return ORIGINAL(openat64)(folder, name, flags, mode);
}

int mkostemp(char* name, int flags) {
  count();
  return ORIGINAL(mkostemp)(name, flags);
}

int rename(const char* from, const char* to) noexcept {
  count();
  return ORIGINAL(rename)(from, to);
}

int link(const char* from, const char* to) noexcept {
  count();
  return ORIGINAL(link)(from, to);
}

int unlink(const char* name) noexcept {
  count();
  return ORIGINAL(unlink)(name);
}

int fchmod(int fd, mode_t mode) noexcept {
  count();
  return ORIGINAL(fchmod)(fd, mode);
}

int fchown(int fd, uid_t owner, gid_t group) noexcept {
  count();
  return ORIGINAL(fchown)(fd, owner, group);
}

}  // extern "C"
