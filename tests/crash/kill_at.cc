// Preloaded into tzmark by the crash tests: counts the calls that change something on disk, in all threads, and kills
// the process at one of them, or lets one fail.
//
// TZMARK_TEST_KILL_AT=N    SIGKILL in the place of call N, counted from 1. N covers "behind call N - 1" as well.
// TZMARK_TEST_STOP_AT=N    SIGSTOP in front of call N, which is made when the process is continued.
// TZMARK_TEST_TERM_AT=N    SIGTERM in front of call N, to the thread that makes it.
// TZMARK_TEST_FAIL_AT=N    Call N is not made and fails, with the errno that TZMARK_TEST_FAIL_WITH has.
// TZMARK_TEST_LACKS=WORDS  What the file system does not have: O_TMPFILE, linkat, renameat2.
// TZMARK_TEST_COUNT_TO=F   At exit, the number of calls is written to the file F.
// TZMARK_TEST_NAMES_TO=F   At exit, the names of the calls in their order, one a line.
//
// Only calls that tzmark itself makes come by here; crash_test.py checks that it makes no other.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

// Of liburing, whose header would bring its own inline functions.
struct io_uring;

namespace {

std::atomic<long> calls = 0;
std::array<std::atomic<const char*>, 1 << 16> names;  // of the first calls

long number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? 0 : std::atol(text);
}

// Returns whether the call has to fail, with errno set.
bool fails(const char* name) {
  static const long kill_at = number_in("TZMARK_TEST_KILL_AT");
  static const long stop_at = number_in("TZMARK_TEST_STOP_AT");
  static const long term_at = number_in("TZMARK_TEST_TERM_AT");
  static const long fail_at = number_in("TZMARK_TEST_FAIL_AT");
  static const long fail_with = number_in("TZMARK_TEST_FAIL_WITH");
  const long call = ++calls;
  if (static_cast<std::size_t>(call) <= names.size()) names[call - 1] = name;
  if (call == stop_at) ::raise(SIGSTOP);
  if (call == term_at) ::raise(SIGTERM);
  // Threads that come later must not overtake the signal.
  while (kill_at != 0 && call >= kill_at) ::kill(::getpid(), SIGKILL);
  if (call != fail_at) return false;
  errno = static_cast<int>(fail_with);
  return true;
}

// Whether the file system is to be taken for one without something; sets errno to what such ones answer.
bool lacks(const char* what, int error_number) {
  const char* const words = std::getenv("TZMARK_TEST_LACKS");
  if (words == nullptr || std::strstr(words, what) == nullptr) return false;
  errno = error_number;
  return true;
}

bool lacks_flags(int flags) { return (flags & O_TMPFILE) == O_TMPFILE && lacks("O_TMPFILE", EOPNOTSUPP); }

bool creates(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

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

// Writes what the function does to the file that a variable names, if it does.
template <typename Write>
void report_to(const char* variable, Write&& write) {
  const char* const name = std::getenv(variable);
  if (name == nullptr) return;
  std::FILE* const file = std::fopen(name, "w");
  if (file == nullptr || !write(file) || std::fclose(file) != 0) ::abort();
}

__attribute__((destructor)) void report() {
  report_to("TZMARK_TEST_COUNT_TO", [](std::FILE* file) { return std::fprintf(file, "%ld\n", calls.load()) > 0; });
  report_to("TZMARK_TEST_NAMES_TO", [](std::FILE* file) {
    const auto count = static_cast<std::size_t>(calls.load());
    if (count > names.size()) return false;
    for (std::size_t i = 0; i < count; ++i) std::fprintf(file, "%s\n", names[i].load());
    return std::ferror(file) == 0;
  });
}

}  // namespace

#define ORIGINAL(function) original<decltype(::function)>(#function)

// Only who may create a file gives a mode, and changes something.
#define TAKE_MODE(mode, flags)        \
  if (creates(flags)) {               \
    va_list arguments;                \
    va_start(arguments, flags);       \
    mode = va_arg(arguments, mode_t); \
    va_end(arguments);                \
    if (fails(__func__)) return -1;   \
  }

extern "C" {

ssize_t pwrite(int fd, const void* bytes, size_t length, off_t offset) {
  if (fails(__func__)) return -1;
  return ORIGINAL(pwrite)(fd, bytes, length, offset);
}

ssize_t pwrite64(int fd, const void* bytes, size_t length, off64_t offset) {
  if (fails(__func__)) return -1;
  return ORIGINAL(pwrite64)(fd, bytes, length, offset);
}

ssize_t pwritev2(int fd, const iovec* parts, int part_count, off_t offset, int flags) {
  if (fails(__func__)) return -1;
  return ORIGINAL(pwritev2)(fd, parts, part_count, offset, flags);
}

// What is submitted may be reads; a kill there is one more moment to survive.
int io_uring_submit(io_uring* ring) {
  if (fails(__func__)) return -errno;
  return ORIGINAL(io_uring_submit)(ring);
}

int io_uring_submit_and_wait(io_uring* ring, unsigned completions) {
  if (fails(__func__)) return -errno;
  return ORIGINAL(io_uring_submit_and_wait)(ring, completions);
}

ssize_t write(int fd, const void* bytes, size_t length) {
  if (is_regular(fd) && fails(__func__)) return -1;
  return ORIGINAL(write)(fd, bytes, length);
}

int ftruncate(int fd, off_t length) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(ftruncate64)(fd, length);
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
  if (fails(__func__)) return -1;
  return ORIGINAL(fallocate)(fd, mode, offset, length);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  if (fails(__func__)) return -1;
  return ORIGINAL(fallocate64)(fd, mode, offset, length);
}

int fsync(int fd) {
  if (fails(__func__)) return -1;
  return ORIGINAL(fsync)(fd);
}

int fdatasync(int fd) {
  if (fails(__func__)) return -1;
  return ORIGINAL(fdatasync)(fd);
}

int sync_file_range(int fd, off64_t offset, off64_t length, unsigned flags) {
  if (fails(__func__)) return -1;
  return ORIGINAL(sync_file_range)(fd, offset, length, flags);
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

int openat(int directory, const char* name, int flags, ...) {
  if (lacks_flags(flags)) return -1;
  mode_t mode = 0;
  TAKE_MODE(mode, flags);
  return ORIGINAL(openat)(directory, name, flags, mode);
}

int openat64(int directory, const char* name, int flags, ...) {
  if (lacks_flags(flags)) return -1;
  mode_t mode = 0;
  TAKE_MODE(mode, flags);
  return ORIGINAL(openat64)(directory, name, flags, mode);
}

int renameat(int from_directory, const char* from, int to_directory, const char* to) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(renameat)(from_directory, from, to_directory, to);
}

int renameat2(int from_directory, const char* from, int to_directory, const char* to, unsigned flags) noexcept {
  if (lacks("renameat2", EINVAL)) return -1;
  if (fails(__func__)) return -1;
  return ORIGINAL(renameat2)(from_directory, from, to_directory, to, flags);
}

int mkdirat(int directory, const char* name, mode_t mode) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(mkdirat)(directory, name, mode);
}

int linkat(int from_directory, const char* from, int to_directory, const char* to, int flags) noexcept {
  if (lacks("linkat", EPERM)) return -1;
  if (fails(__func__)) return -1;
  return ORIGINAL(linkat)(from_directory, from, to_directory, to, flags);
}

int unlinkat(int directory, const char* name, int flags) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(unlinkat)(directory, name, flags);
}

int fchmod(int fd, mode_t mode) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(fchmod)(fd, mode);
}

int fchown(int fd, uid_t owner, gid_t group) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(fchown)(fd, owner, group);
}

int fsetxattr(int fd, const char* name, const void* value, size_t bytes, int flags) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(fsetxattr)(fd, name, value, bytes, flags);
}

int fremovexattr(int fd, const char* name) noexcept {
  if (fails(__func__)) return -1;
  return ORIGINAL(fremovexattr)(fd, name);
}

}  // extern "C"
