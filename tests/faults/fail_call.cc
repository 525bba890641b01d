// Preloaded into tzmark by the tests of faults: counts the calls that it makes to the system, and lets one fail.
//
// TZMARK_FAULT_CALL=NAME    The function that fails (pread), or "completion" for a completion of io_uring.
// TZMARK_FAULT_AT=N         Its call N fails, counted from 1 over all threads.
// TZMARK_FAULT_WITH=WORD    The number of the error; "short": the call moves a part, but for one of a single byte.
// TZMARK_FAULT_AND_AFTER=1  Every later call of that name fails too.
// TZMARK_FAULT_SHORTEN=FILE In place of a failure, this file is truncated to a third when the call has been made, and
//                           what was read of the rest is zeros, as when a kernel truncates it under the copy.
// TZMARK_FAULT_MET=FILE     Is created when the fault is met.
// TZMARK_FAULT_COUNTS=FILE  At exit, a line "NAME COUNT" for each function.
//
// Counted are calls from the program itself, not from its libraries, and none of standard output or standard error.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <liburing.h>
#include <link.h>
#include <linux/magic.h>
#include <pthread.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kShort = -1;

struct Count {
  const char* name;
  std::atomic<long> calls = 0;
};

// One for each function that is met, in the order of the first calls.
std::array<Count, 64> counts;
std::atomic<std::size_t> names_used = 0;

// A linear search: the functions are few, and the names are literals.
std::atomic<long>& calls_of(const char* name) {
  static std::atomic_flag busy = ATOMIC_FLAG_INIT;
  while (busy.test_and_set(std::memory_order_acquire)) {
  }
  std::size_t i = 0;
  while (i < names_used && std::strcmp(counts[i].name, name) != 0) ++i;
  if (i == names_used) {
    if (i == counts.size()) ::abort();
    counts[i].name = name;
    ++names_used;
  }
  busy.clear(std::memory_order_release);
  return counts[i].calls;
}

struct Plan {
  const char* call = std::getenv("TZMARK_FAULT_CALL");
  const char* met = std::getenv("TZMARK_FAULT_MET");
  const char* shorten = std::getenv("TZMARK_FAULT_SHORTEN");
  long at = 0;
  int with = 0;
  bool and_after = std::getenv("TZMARK_FAULT_AND_AFTER") != nullptr;

  Plan() {
    const char* const number = std::getenv("TZMARK_FAULT_AT");
    const char* const word = std::getenv("TZMARK_FAULT_WITH");
    if (number != nullptr) at = std::atol(number);
    if (word != nullptr) with = std::strcmp(word, "short") == 0 ? kShort : std::atoi(word);
  }
};

const Plan& plan() {
  static const Plan made;
  return made;
}

// The code of the program, which the loader lists first.
bool is_of_program(const void* address) {
  struct Range {
    std::uintptr_t begin = UINTPTR_MAX, end = 0;
  };
  static const Range program = [] {
    Range range;
    ::dl_iterate_phdr(
        [](dl_phdr_info* object, std::size_t, void* result) {
          auto& found = *static_cast<Range*>(result);
          for (int i = 0; i < object->dlpi_phnum; ++i) {
            const auto& part = object->dlpi_phdr[i];
            if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
            found.begin = std::min<std::uintptr_t>(found.begin, object->dlpi_addr + part.p_vaddr);
            found.end = std::max<std::uintptr_t>(found.end, object->dlpi_addr + part.p_vaddr + part.p_memsz);
          }
          return 1;
        },
        &range);
    return range;
  }();
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= program.begin && at < program.end;
}

// The fault of a call: 0, kShort or the number of an error.
int fault_of(const char* name, const void* caller) {
  if (!is_of_program(caller)) return 0;
  const long call = ++calls_of(name);
  if (plan().call == nullptr || std::strcmp(plan().call, name) != 0) return 0;
  if (call != plan().at && !(plan().and_after && call > plan().at)) return 0;
  if (plan().met != nullptr) {
    const long fd = ::syscall(SYS_openat, AT_FDCWD, plan().met, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) ::abort();
    ::syscall(SYS_close, fd);
  }
  return plan().with;
}

// Truncates the file that is read, as another process would meanwhile, and returns its size.
off_t shorten() {
  struct stat status {};
  if (::stat(plan().shorten, &status) != 0 || ::truncate(plan().shorten, status.st_size / 3) != 0) ::abort();
  return status.st_size / 3;
}

// Truncates the file that has been read into memory from the offset on. A kernel sets the new size, and then zeroes the
// rest of a page, which may be copied at the time.
void shorten_under_read(void* memory, ssize_t bytes, off_t offset) {
  const off_t end = shorten();
  const off_t kept = std::clamp<off_t>(end - offset, 0, std::max<ssize_t>(bytes, 0));
  if (bytes > kept) std::memset(static_cast<char*>(memory) + kept, 0, static_cast<std::size_t>(bytes - kept));
}

bool fails(const char* name, const void* caller) {
  const int fault = fault_of(name, caller);
  if (fault <= 0) return false;
  errno = fault;
  return true;
}

// Returns whether a call that moves bytes fails, and sets how many it moves at most.
bool moving_fails(const char* name, const void* caller, int fd, std::size_t& bytes) {
  if (fd == STDOUT_FILENO || fd == STDERR_FILENO) return false;
  const int fault = fault_of(name, caller);
  if (fault == kShort && bytes > 1) bytes /= 2;
  if (fault <= 0) return false;
  errno = fault;
  return true;
}

// A read at an offset, by a function of the number of bytes.
template <typename Read>
ssize_t read_with_fault(const char* name, const void* caller, void* memory, std::size_t bytes, off_t offset,
                        Read&& read) {
  const int fault = fault_of(name, caller);
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  const bool shortens = fault == kShort && plan().shorten != nullptr;
  const ssize_t moved = read(fault == kShort && !shortens && bytes > 1 ? bytes / 2 : bytes);
  if (shortens) shorten_under_read(memory, moved, offset);
  return moved;
}

// A read of a ring, found by what its completion tells.
struct RingRead {
  std::uint64_t memory = 0, offset = 0;
};

RingRead& ring_read(const io_uring* ring, std::uint64_t user_data) {
  static std::array<std::array<RingRead, 256>, 256> reads;
  const auto fd = static_cast<std::size_t>(ring->ring_fd);
  if (fd >= reads.size() || user_data >= reads[fd].size()) ::abort();
  return reads[fd][user_data];
}

void remember_reads(const io_uring* ring) {
  for (unsigned i = ring->sq.sqe_head; i != ring->sq.sqe_tail; ++i) {
    const io_uring_sqe& entry = ring->sq.sqes[i & ring->sq.ring_mask];
    ring_read(ring, entry.user_data) = {entry.addr, entry.off};
  }
}

void shorten_under_completion(const io_uring* ring, const io_uring_cqe& completion) {
  const RingRead& read = ring_read(ring, completion.user_data);
  shorten_under_read(reinterpret_cast<void*>(read.memory), completion.res, static_cast<off_t>(read.offset));
}

template <typename Function>
Function* original(const char* name) {
  const auto function = reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
  if (function == nullptr) ::abort();
  return function;
}

__attribute__((destructor)) void report_counts() {
  const char* const name = std::getenv("TZMARK_FAULT_COUNTS");
  if (name == nullptr) return;
  std::FILE* const file = std::fopen(name, "w");
  if (file == nullptr) ::abort();
  for (std::size_t i = 0; i < names_used; ++i) std::fprintf(file, "%s %ld\n", counts[i].name, counts[i].calls.load());
  if (std::fclose(file) != 0) ::abort();
}

mode_t mode_of(int flags, va_list arguments) {
  const bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  return has_mode ? va_arg(arguments, mode_t) : 0;
}

// Errors of stdio are zeros, and a mark in the stream.
std::size_t failed_stream(std::FILE* stream) {
  stream->_flags |= _IO_ERR_SEEN;
  return 0;
}

}  // namespace

#define ORIGINAL(function) original<decltype(::function)>(#function)
#define CALLER __builtin_return_address(0)

// A function that is done or not.
#define TZMARK_FAIL(result, function, failed, parameters, arguments) \
  result function parameters {                                       \
    if (fails(#function, CALLER)) return failed;                     \
    return ORIGINAL(function) arguments;                             \
  }

// Those that liburing reports as a negative result.
#define TZMARK_FAIL_RING(function, parameters, arguments) \
  int function parameters {                               \
    if (fails(#function, CALLER)) return -errno;          \
    return ORIGINAL(function) arguments;                  \
  }

// Those of them that submit. The thread of a polled ring has been shown its entries before liburing can fail.
#define TZMARK_FAIL_SUBMISSION(function, parameters, arguments)                      \
  int function parameters {                                                          \
    remember_reads(ring);                                                            \
    if (fails(#function, CALLER)) {                                                  \
      const int error_number = errno;                                                \
      if ((ring->flags & IORING_SETUP_SQPOLL) != 0) ORIGINAL(io_uring_submit)(ring); \
      return -error_number;                                                          \
    }                                                                                \
    return ORIGINAL(function) arguments;                                             \
  }

extern "C" {

int open(const char* name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails(__func__, CALLER)) return -1;
  return ORIGINAL(open)(name, flags, mode);
}

// What the C library's checks make of a call of open without a mode.
int __open_2(const char* name, int flags) {
  if (fails("open", CALLER)) return -1;
  return ORIGINAL(open)(name, flags);
}

int openat(int directory, const char* name, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  if (fails(__func__, CALLER)) return -1;
  return ORIGINAL(openat)(directory, name, flags, mode);
}

// The descriptor is closed, as after an error of the kernel's.
int close(int fd) {
  const bool fail = fails(__func__, CALLER);
  const int error_number = errno;
  const int result = ORIGINAL(close)(fd);
  if (fail) errno = error_number;
  return fail ? -1 : result;
}

ssize_t read(int fd, void* bytes, size_t length) {
  if (moving_fails(__func__, CALLER, fd, length)) return -1;
  return ORIGINAL(read)(fd, bytes, length);
}

ssize_t pread(int fd, void* bytes, size_t length, off_t offset) {
  return read_with_fault(__func__, CALLER, bytes, length, offset,
                         [&](std::size_t part) { return ORIGINAL(pread)(fd, bytes, part, offset); });
}

ssize_t preadv2(int fd, const iovec* parts, int part_count, off_t offset, int flags) {
  if (part_count != 1) ::abort();
  // The byte that asks whether the file system takes the flags; nothing looks at it.
  if (parts->iov_len == 1) return ORIGINAL(preadv2)(fd, parts, part_count, offset, flags);
  return read_with_fault(__func__, CALLER, parts->iov_base, parts->iov_len, offset, [&](std::size_t bytes) {
    const iovec part{parts->iov_base, bytes};
    return ORIGINAL(preadv2)(fd, &part, 1, offset, flags);
  });
}

ssize_t write(int fd, const void* bytes, size_t length) {
  if (moving_fails(__func__, CALLER, fd, length)) return -1;
  return ORIGINAL(write)(fd, bytes, length);
}

ssize_t pwrite(int fd, const void* bytes, size_t length, off_t offset) {
  // What a process asks of the kernel in /proc is no data; without it, the result is the same.
  struct statfs system {};
  if (::fstatfs(fd, &system) == 0 && system.f_type == PROC_SUPER_MAGIC) {
    return ORIGINAL(pwrite)(fd, bytes, length, offset);
  }
  if (moving_fails(__func__, CALLER, fd, length)) return -1;
  return ORIGINAL(pwrite)(fd, bytes, length, offset);
}

ssize_t pwritev2(int fd, const iovec* parts, int part_count, off_t offset, int flags) {
  std::size_t bytes = parts[0].iov_len;
  if (moving_fails(__func__, CALLER, fd, bytes)) return -1;
  if (bytes == parts[0].iov_len) return ORIGINAL(pwritev2)(fd, parts, part_count, offset, flags);
  const iovec part{parts[0].iov_base, bytes};
  return ORIGINAL(pwritev2)(fd, &part, 1, offset, flags);
}

size_t fread(void* memory, size_t size, size_t count, FILE* stream) {
  if (size != 1) ::abort();
  const ssize_t moved = read_with_fault(__func__, CALLER, memory, count, ::ftello(stream), [&](std::size_t bytes) {
    return static_cast<ssize_t>(ORIGINAL(fread)(memory, 1, bytes, stream));
  });
  return moved < 0 ? failed_stream(stream) : static_cast<std::size_t>(moved);
}

size_t fwrite(const void* memory, size_t size, size_t count, FILE* stream) {
  if (moving_fails(__func__, CALLER, ::fileno(stream), count)) return failed_stream(stream);
  return ORIGINAL(fwrite)(memory, size, count, stream);
}

int madvise(void* memory, size_t bytes, int advice) noexcept {
  // Other advice is a hint, whose result is ignored.
  const bool populates = advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE;
  if (!populates) return ORIGINAL(madvise)(memory, bytes, advice);
  const int fault = fault_of(__func__, CALLER);
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  const int result = ORIGINAL(madvise)(memory, bytes, advice);
  if (fault == kShort && plan().shorten != nullptr) shorten();
  return result;
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) noexcept {
  if (fails(__func__, CALLER)) return errno;
  return ORIGINAL(posix_memalign)(memory, alignment, bytes);
}

unsigned io_uring_peek_batch_cqe(io_uring* ring, io_uring_cqe** completions, unsigned count) {
  const unsigned found = ORIGINAL(io_uring_peek_batch_cqe)(ring, completions, count);
  for (unsigned i = 0; i < found; ++i) {
    const int fault = fault_of("completion", CALLER);
    if (fault == kShort && plan().shorten != nullptr) {
      shorten_under_completion(ring, *completions[i]);
    } else if (fault == kShort && completions[i]->res > 1) {
      completions[i]->res /= 2;
    }
    if (fault > 0) completions[i]->res = -fault;
  }
  return found;
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  if (fails(__func__, CALLER)) return -1;
  return ORIGINAL(fcntl)(fd, command, argument);
}

// The C++ library makes threads for the program.
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  if (fails(__func__, reinterpret_cast<const void*>(::getauxval(AT_ENTRY)))) return errno;
  return ORIGINAL(pthread_create)(thread, attributes, start, argument);
}

// clang-format off
TZMARK_FAIL(int, fflush, EOF, (FILE* stream), (stream))
TZMARK_FAIL(int, fseeko, -1, (FILE* stream, off_t offset, int whence), (stream, offset, whence))
TZMARK_FAIL(int, fsync, -1, (int fd), (fd))
TZMARK_FAIL(int, sync_file_range, -1, (int fd, off64_t offset, off64_t bytes, unsigned flags),
            (fd, offset, bytes, flags))
TZMARK_FAIL(int, fallocate, -1, (int fd, int mode, off_t offset, off_t bytes), (fd, mode, offset, bytes))
TZMARK_FAIL(int, ftruncate, -1, (int fd, off_t bytes) noexcept, (fd, bytes))
TZMARK_FAIL(int, fstat, -1, (int fd, struct stat* status) noexcept, (fd, status))
TZMARK_FAIL(int, fstatat, -1, (int directory, const char* name, struct stat* status, int flags) noexcept,
            (directory, name, status, flags))
TZMARK_FAIL(int, lstat, -1, (const char* name, struct stat* status) noexcept, (name, status))
TZMARK_FAIL(int, statx, -1,
            (int directory, const char* name, int flags, unsigned mask, struct statx* status) noexcept,
            (directory, name, flags, mask, status))
TZMARK_FAIL(int, faccessat, -1, (int directory, const char* name, int mode, int flags) noexcept,
            (directory, name, mode, flags))
TZMARK_FAIL(ssize_t, readlinkat, -1, (int directory, const char* name, char* target, size_t bytes) noexcept,
            (directory, name, target, bytes))
TZMARK_FAIL(off_t, lseek, -1, (int fd, off_t offset, int whence) noexcept, (fd, offset, whence))
TZMARK_FAIL(void*, mmap, MAP_FAILED, (void* at, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept,
            (at, bytes, protection, flags, fd, offset))
TZMARK_FAIL(int, renameat, -1, (int from, const char* name, int to, const char* new_name) noexcept,
            (from, name, to, new_name))
TZMARK_FAIL(int, renameat2, -1, (int from, const char* name, int to, const char* new_name, unsigned flags) noexcept,
            (from, name, to, new_name, flags))
TZMARK_FAIL(int, linkat, -1, (int from, const char* name, int to, const char* new_name, int flags) noexcept,
            (from, name, to, new_name, flags))
TZMARK_FAIL(int, unlinkat, -1, (int directory, const char* name, int flags) noexcept, (directory, name, flags))
TZMARK_FAIL(int, mkdirat, -1, (int directory, const char* name, mode_t mode) noexcept, (directory, name, mode))
TZMARK_FAIL(int, fchmod, -1, (int fd, mode_t mode) noexcept, (fd, mode))
TZMARK_FAIL(int, fchown, -1, (int fd, uid_t owner, gid_t group) noexcept, (fd, owner, group))
TZMARK_FAIL(ssize_t, fgetxattr, -1, (int fd, const char* name, void* value, size_t bytes) noexcept,
            (fd, name, value, bytes))
TZMARK_FAIL(int, fsetxattr, -1, (int fd, const char* name, const void* value, size_t bytes, int flags) noexcept,
            (fd, name, value, bytes, flags))
TZMARK_FAIL(int, fremovexattr, -1, (int fd, const char* name) noexcept, (fd, name))
TZMARK_FAIL(int, flock, -1, (int fd, int operation) noexcept, (fd, operation))
TZMARK_FAIL(DIR*, fdopendir, nullptr, (int fd), (fd))
TZMARK_FAIL(dirent*, readdir, nullptr, (DIR* directory), (directory))
TZMARK_FAIL_RING(io_uring_queue_init_params, (unsigned entries, io_uring* ring, io_uring_params* parameters),
                 (entries, ring, parameters))
TZMARK_FAIL_SUBMISSION(io_uring_submit, (io_uring* ring), (ring))
TZMARK_FAIL_SUBMISSION(io_uring_submit_and_wait, (io_uring* ring, unsigned count), (ring, count))
TZMARK_FAIL_RING(io_uring_enter,
                 (unsigned ring, unsigned entries, unsigned completions, unsigned flags, sigset_t* signals),
                 (ring, entries, completions, flags, signals))
TZMARK_FAIL_RING(io_uring_register_buffers, (io_uring* ring, const iovec* parts, unsigned count), (ring, parts, count))
TZMARK_FAIL_RING(io_uring_register_files, (io_uring* ring, const int* files, unsigned count), (ring, files, count))
// clang-format on

}  // extern "C"
