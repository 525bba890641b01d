// The calls that take the place of the C library's in a test program. CMake reads their names from this file: each
// begins a line as TZMARK_WRAP(result, name, arguments).
#include "testing/faults/system_calls.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace tzmark::test {
namespace {

std::atomic<SystemCalls*> current = nullptr;
// While the hook or the log runs, this thread's calls are the test's own.
thread_local bool is_inside = false;

class Inside {
 public:
  Inside() { is_inside = true; }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { is_inside = false; }
};

std::string path_of(int fd) {
  std::array<char, 4096> path;
  const std::string link = fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = ::readlink(link.c_str(), path.data(), path.size());
  return length < 0 ? link : std::string(path.data(), static_cast<std::size_t>(length));
}

std::string path_in(int directory, const std::string& name) {
  if (name.starts_with('/')) return name;
  return name == "." ? path_of(directory) : path_of(directory) + "/" + name;
}

// What of the call is the same for all calls of a descriptor.
Call call_of(Call::Kind kind, std::string_view function, const char* verb, int fd) {
  struct stat status {};
  const bool is_open = ::fstat(fd, &status) == 0;
  const std::string path = path_of(fd);
  Call call{kind, function, std::string(verb) + " " + path, path};
  call.fd = fd;
  call.inode = is_open ? status.st_ino : 0;
  return call;
}

Call call_with_name(Call::Kind kind, std::string_view function, const char* verb, int directory, const char* name) {
  const std::string path = path_in(directory, name);
  return {kind, function, std::string(verb) + " " + path, path};
}

Call call_with_names(std::string_view function, const char* verb, int directory, const char* name, int new_directory,
                     const char* new_name) {
  Call call = call_with_name(Call::Kind::kChange, function, verb, directory, name);
  call.new_path = path_in(new_directory, new_name);
  call.what += " " + call.new_path;
  return call;
}

Call call_with_range(Call call, off_t offset, std::size_t bytes) {
  call.offset = static_cast<std::uint64_t>(offset);
  call.bytes = bytes;
  return call;
}

Call call_with_content(Call call, off_t offset, const void* content, std::size_t bytes) {
  call = call_with_range(std::move(call), offset, bytes);
  call.content = {static_cast<const std::byte*>(content), bytes};
  return call;
}

Call call_with_flags(Call call, int flags) {
  call.flags = flags;
  return call;
}

bool creates(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

// Asks the hook, if there is one, of a call that is described by `describe` and made by `real`.
template <typename Describe, typename Real>
std::int64_t ask(Describe&& describe, Real&& real) {
  SystemCalls* const calls = current;
  if (calls == nullptr || is_inside) return real();
  const auto describe_inside = [&] {
    const Inside inside;
    return describe();
  };
  return calls->make(describe_inside(), real);
}

// Opening and looking cannot be left out: there would be no answer.
bool needs_answer(const Call& call) {
  return call.kind == Call::Kind::kLook || call.kind == Call::Kind::kRead || call.function.starts_with("open") ||
         call.function == "mkostemp";
}

std::int64_t failed(int error_number) {
  errno = error_number;
  return -1;
}

}  // namespace

SystemCalls::SystemCalls(Hook hook, Log log) : hook_(std::move(hook)), log_(std::move(log)), outer_(current) {
  current = this;
}

SystemCalls::~SystemCalls() { current = outer_; }

std::int64_t SystemCalls::make(const Call& call, const std::function<std::int64_t()>& real) {
  if (is_dead_) return failed(EIO);
  Reply reply = true;
  try {
    const Inside inside;
    reply = hook_(call);
  } catch (...) {
    // Most of the callers are compiled for calls that never throw.
    is_dead_ = true;
    return failed(EIO);
  }
  switch (reply.action_) {
    case Reply::Action::kMake:
      return log(call, [&] { return make_outside(call, real); });
    case Reply::Action::kLeaveOut:
      return needs_answer(call) ? failed(EIO) : static_cast<std::int64_t>(call.content.size());
    case Reply::Action::kFail:
      return failed(reply.error_number_);
    case Reply::Action::kHalf: {
      const std::int64_t moved = log(call, [&] { return make_outside(call, real); });
      return moved > 1 ? moved / 2 : moved;
    }
    case Reply::Action::kInstead:
      return log(call, [&] {
        const Inside inside;
        return reply.instead_();
      });
  }
  return failed(EIO);
}

std::int64_t SystemCalls::make_outside(const Call& call, const std::function<std::int64_t()>& real) {
  return outer_ == nullptr ? real() : outer_->make(call, real);
}

std::int64_t SystemCalls::log(const Call& call, const std::function<std::int64_t()>& action) {
  if (!log_) return action();
  const std::lock_guard lock(mutex_);
  const std::int64_t result = action();
  const int error_number = errno;
  if (result >= 0) {
    const Inside inside;
    log_(call, result);
  }
  errno = error_number;
  return result;
}

}  // namespace tzmark::test

// The names are the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
using namespace tzmark::test;

namespace {

Call call_of_sync(std::string_view function, int fd) {
  struct stat status {};
  const bool is_directory = ::fstat(fd, &status) == 0 && S_ISDIR(status.st_mode);
  return is_directory ? call_of(Call::Kind::kSyncDirectory, function, "sync directory", fd)
                      : call_of(Call::Kind::kSync, function, "sync", fd);
}

}  // namespace

extern "C" {

#define TZMARK_WRAP(result, name, ...) \
  result __real_##name(__VA_ARGS__);   \
  result __wrap_##name(__VA_ARGS__);   \
  result __wrap_##name(__VA_ARGS__)

// The mode of a call that may create a file, which others do not pass.
#define TZMARK_TAKE_MODE(mode, flags) \
  mode_t mode = 0;                    \
  if (creates(flags)) {               \
    va_list rest;                     \
    va_start(rest, flags);            \
    mode = va_arg(rest, mode_t);      \
    va_end(rest);                     \
  }

#define TZMARK_ASK(result, describe, real) \
  return static_cast<result>(ask([&] { return describe; }, [&]() -> std::int64_t { return real; }))

#define TZMARK_KIND_OF_OPEN(flags) (creates(flags) ? Call::Kind::kChange : Call::Kind::kLook)
#define TZMARK_VERB_OF_OPEN(flags) (creates(flags) ? "create" : "open")

TZMARK_WRAP(int, open, const char* name, int flags, ...) {
  TZMARK_TAKE_MODE(mode, flags);
  TZMARK_ASK(int,
             call_with_flags(
                 call_with_name(TZMARK_KIND_OF_OPEN(flags), "open", TZMARK_VERB_OF_OPEN(flags), AT_FDCWD, name), flags),
             __real_open(name, flags, mode));
}

// What the C library's checks make of a call without a mode.
TZMARK_WRAP(int, __open_2, const char* name, int flags) { return __wrap_open(name, flags); }

TZMARK_WRAP(int, openat, int directory, const char* name, int flags, ...) {
  TZMARK_TAKE_MODE(mode, flags);
  TZMARK_ASK(
      int,
      call_with_flags(call_with_name(TZMARK_KIND_OF_OPEN(flags), "openat", TZMARK_VERB_OF_OPEN(flags), directory, name),
                      flags),
      __real_openat(directory, name, flags, mode));
}

TZMARK_WRAP(int, mkostemp, char* name, int flags) {
  TZMARK_ASK(int, call_with_name(Call::Kind::kChange, "mkostemp", "create", AT_FDCWD, name),
             __real_mkostemp(name, flags));
}

TZMARK_WRAP(ssize_t, pread, int fd, void* memory, size_t bytes, off_t offset) {
  TZMARK_ASK(ssize_t, call_with_range(call_of(Call::Kind::kRead, "pread", "read", fd), offset, bytes),
             __real_pread(fd, memory, bytes, offset));
}

TZMARK_WRAP(ssize_t, preadv2, int fd, const iovec* pieces, int count, off_t offset, int flags) {
  std::size_t bytes = 0;
  for (int i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  TZMARK_ASK(ssize_t, call_with_range(call_of(Call::Kind::kRead, "preadv2", "read", fd), offset, bytes),
             __real_preadv2(fd, pieces, count, offset, flags));
}

TZMARK_WRAP(ssize_t, pwrite, int fd, const void* memory, size_t bytes, off_t offset) {
  TZMARK_ASK(ssize_t, call_with_content(call_of(Call::Kind::kWrite, "pwrite", "write", fd), offset, memory, bytes),
             __real_pwrite(fd, memory, bytes, offset));
}

TZMARK_WRAP(ssize_t, pwritev2, int fd, const iovec* pieces, int count, off_t offset, int flags) {
  std::vector<std::byte> content;
  for (int i = 0; i < count; ++i) {
    const auto* const begin = static_cast<const std::byte*>(pieces[i].iov_base);
    content.insert(content.end(), begin, begin + pieces[i].iov_len);
  }
  TZMARK_ASK(
      ssize_t,
      call_with_content(call_of(Call::Kind::kWrite, "pwritev2", "write", fd), offset, content.data(), content.size()),
      __real_pwritev2(fd, pieces, count, offset, flags));
}

TZMARK_WRAP(ssize_t, write, int fd, const void* memory, size_t bytes) {
  // Pipes and terminals have no position, and keep nothing.
  const off_t offset = ::lseek(fd, 0, SEEK_CUR);
  if (offset < 0) return __real_write(fd, memory, bytes);
  TZMARK_ASK(ssize_t, call_with_content(call_of(Call::Kind::kWrite, "write", "write", fd), offset, memory, bytes),
             __real_write(fd, memory, bytes));
}

TZMARK_WRAP(int, ftruncate, int fd, off_t bytes) {
  TZMARK_ASK(int, call_with_range(call_of(Call::Kind::kChange, "ftruncate", "resize", fd), bytes, 0),
             __real_ftruncate(fd, bytes));
}

TZMARK_WRAP(int, fallocate, int fd, int mode, off_t offset, off_t bytes) {
  TZMARK_ASK(int,
             call_with_flags(call_with_range(call_of(Call::Kind::kChange, "fallocate", "allocate", fd), offset,
                                             static_cast<std::size_t>(bytes)),
                             mode),
             __real_fallocate(fd, mode, offset, bytes));
}

TZMARK_WRAP(int, fsync, int fd) { TZMARK_ASK(int, call_of_sync("fsync", fd), __real_fsync(fd)); }

TZMARK_WRAP(int, fdatasync, int fd) { TZMARK_ASK(int, call_of_sync("fdatasync", fd), __real_fdatasync(fd)); }

TZMARK_WRAP(int, sync_file_range, int fd, off64_t offset, off64_t bytes, unsigned flags) {
  TZMARK_ASK(int,
             call_with_range(call_of(Call::Kind::kHint, "sync_file_range", "begin to write", fd), offset,
                             static_cast<std::size_t>(bytes)),
             __real_sync_file_range(fd, offset, bytes, flags));
}

TZMARK_WRAP(int, rename, const char* from, const char* to) {
  TZMARK_ASK(int, call_with_names("rename", "rename", AT_FDCWD, from, AT_FDCWD, to), __real_rename(from, to));
}

TZMARK_WRAP(int, renameat, int from_directory, const char* from, int to_directory, const char* to) {
  TZMARK_ASK(int, call_with_names("renameat", "rename", from_directory, from, to_directory, to),
             __real_renameat(from_directory, from, to_directory, to));
}

TZMARK_WRAP(int, renameat2, int from_directory, const char* from, int to_directory, const char* to, unsigned flags) {
  const char* const verb = (flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename";
  TZMARK_ASK(int,
             call_with_flags(call_with_names("renameat2", verb, from_directory, from, to_directory, to),
                             static_cast<int>(flags)),
             __real_renameat2(from_directory, from, to_directory, to, flags));
}

TZMARK_WRAP(int, link, const char* from, const char* to) {
  TZMARK_ASK(int, call_with_names("link", "link", AT_FDCWD, from, AT_FDCWD, to), __real_link(from, to));
}

TZMARK_WRAP(int, linkat, int from_directory, const char* from, int to_directory, const char* to, int flags) {
  TZMARK_ASK(int, call_with_flags(call_with_names("linkat", "link", from_directory, from, to_directory, to), flags),
             __real_linkat(from_directory, from, to_directory, to, flags));
}

TZMARK_WRAP(int, unlink, const char* name) {
  TZMARK_ASK(int, call_with_name(Call::Kind::kChange, "unlink", "remove", AT_FDCWD, name), __real_unlink(name));
}

TZMARK_WRAP(int, unlinkat, int directory, const char* name, int flags) {
  TZMARK_ASK(int, call_with_flags(call_with_name(Call::Kind::kChange, "unlinkat", "remove", directory, name), flags),
             __real_unlinkat(directory, name, flags));
}

TZMARK_WRAP(int, rmdir, const char* name) {
  TZMARK_ASK(int, call_with_name(Call::Kind::kChange, "rmdir", "remove", AT_FDCWD, name), __real_rmdir(name));
}

TZMARK_WRAP(int, mkdir, const char* name, mode_t mode) {
  TZMARK_ASK(int, call_with_name(Call::Kind::kChange, "mkdir", "make", AT_FDCWD, name), __real_mkdir(name, mode));
}

TZMARK_WRAP(int, mkdirat, int directory, const char* name, mode_t mode) {
  TZMARK_ASK(int, call_with_name(Call::Kind::kChange, "mkdirat", "make", directory, name),
             __real_mkdirat(directory, name, mode));
}

TZMARK_WRAP(int, fchmod, int fd, mode_t mode) {
  TZMARK_ASK(int, call_of(Call::Kind::kChange, "fchmod", "set mode of", fd), __real_fchmod(fd, mode));
}

TZMARK_WRAP(int, fchown, int fd, uid_t owner, gid_t group) {
  TZMARK_ASK(int, call_of(Call::Kind::kChange, "fchown", "set owner of", fd), __real_fchown(fd, owner, group));
}

TZMARK_WRAP(int, fsetxattr, int fd, const char* name, const void* value, size_t bytes, int flags) {
  TZMARK_ASK(int, call_of(Call::Kind::kChange, "fsetxattr", "set attribute of", fd),
             __real_fsetxattr(fd, name, value, bytes, flags));
}

TZMARK_WRAP(int, fremovexattr, int fd, const char* name) {
  TZMARK_ASK(int, call_of(Call::Kind::kChange, "fremovexattr", "remove attribute of", fd),
             __real_fremovexattr(fd, name));
}

TZMARK_WRAP(int, flock, int fd, int operation) {
  // Letting go is as closing the file: the dead do it too.
  if ((operation & LOCK_UN) != 0) return __real_flock(fd, operation);
  const char* const verb = (operation & LOCK_EX) != 0 ? "lock alone" : "lock";
  TZMARK_ASK(int, call_with_flags(call_of(Call::Kind::kLock, "flock", verb, fd), operation),
             __real_flock(fd, operation));
}

TZMARK_WRAP(int, fstatat, int directory, const char* name, struct stat* status, int flags) {
  TZMARK_ASK(int, call_with_flags(call_with_name(Call::Kind::kLook, "fstatat", "look at", directory, name), flags),
             __real_fstatat(directory, name, status, flags));
}

TZMARK_WRAP(int, lstat, const char* name, struct stat* status) {
  TZMARK_ASK(int, call_with_name(Call::Kind::kLook, "lstat", "look at", AT_FDCWD, name), __real_lstat(name, status));
}

TZMARK_WRAP(DIR*, fdopendir, int fd) {
  DIR* directory = nullptr;
  const std::int64_t result = ask([&] { return call_of(Call::Kind::kLook, "fdopendir", "list", fd); },
                                  [&]() -> std::int64_t {
                                    directory = __real_fdopendir(fd);
                                    return directory == nullptr ? -1 : 0;
                                  });
  return result < 0 ? nullptr : directory;
}

TZMARK_WRAP(int, posix_fadvise, int fd, off_t offset, off_t bytes, int advice) {
  TZMARK_ASK(int, call_of(Call::Kind::kLook, "posix_fadvise", "forget", fd),
             __real_posix_fadvise(fd, offset, bytes, advice));
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
