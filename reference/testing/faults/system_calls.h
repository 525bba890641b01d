// For tests: asks a hook before each system call of the program that opens, reads, locks, changes or syncs files and
// directories.
//
// The linker puts our calls in the place of the C library's (--wrap; CMake: tzmark_wrap_system_calls), in the test
// program alone. What shared libraries call by themselves is not seen: std::filesystem, streams, stdio (I/O path
// "buffered"). Nor is what no call moves: bytes that the mmap and io_uring paths write. Tests use I/O path "pwrite".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace tzmark::test {

// One call that is about to happen. Paths are absolute; a file without a name has the one that /proc tells of it.
struct Call {
  // kHint: begins what may happen at any time, and makes nothing durable.
  enum class Kind { kLook, kLock, kRead, kWrite, kSync, kSyncDirectory, kChange, kHint };
  Kind kind;
  std::string_view function;  // "renameat2"
  std::string what;           // for people: "rename /run/a /run/b"
  std::string path;
  std::string new_path = {};                // of renames and links
  int fd = -1;                              // of the file or directory that is read, written, locked, synced
  std::uint64_t inode = 0;                  // that of fd
  int flags = 0;                            // of open, renameat2, fallocate (mode), unlinkat, flock (operation)
  std::uint64_t offset = 0;                 // where is read, written or allocated; the size that ftruncate gives
  std::uint64_t bytes = 0;                  // how many are read, written or allocated
  std::span<const std::byte> content = {};  // what is written
};

// What becomes of a call.
class Reply {
 public:
  // true: it is made. false: it is left out, and its caller is told that it succeeded. What opens, reads or looks
  // cannot be left out, and fails with EIO.
  Reply(bool is_made) : action_(is_made ? Action::kMake : Action::kLeaveOut) {}  // NOLINT(google-explicit-constructor)
  // It fails, and nothing is changed.
  static Reply failure(int error_number) {
    Reply reply(Action::kFail);
    reply.error_number_ = error_number;
    return reply;
  }
  // It is made, and its caller is told that it has moved half of the bytes.
  static Reply half() { return Reply(Action::kHalf); }
  // Another action takes its place, with the same result: -1 and errno set if it fails. The hook is not asked
  // meanwhile.
  static Reply instead(std::function<std::int64_t()> action) {
    Reply reply(Action::kInstead);
    reply.instead_ = std::move(action);
    return reply;
  }
  bool is_failure() const { return action_ == Action::kFail; }

 private:
  friend class SystemCalls;
  enum class Action { kMake, kLeaveOut, kFail, kHalf, kInstead };
  explicit Reply(Action action) : action_(action) {}

  Action action_;
  int error_number_ = 0;
  std::function<std::int64_t()> instead_;
};

// Asks while it lives. Of several the newest is asked first, and the others about what it lets be made.
// REQUIRES: no other thread makes calls while it is made or destroyed; the newest is destroyed first.
class SystemCalls {
 public:
  // Called from any thread, and several at a time. Its own calls are not asked about. If it throws, the caller has
  // died: from then on no call of any thread changes anything, and all fail with EIO, which ends the caller soon.
  using Hook = std::function<Reply(const Call&)>;
  // Told of each call that has succeeded, with its result, in their order: no other call is made meanwhile.
  using Log = std::function<void(const Call&, std::int64_t result)>;

  explicit SystemCalls(Hook hook, Log log = {});
  SystemCalls(const SystemCalls&) = delete;
  SystemCalls& operator=(const SystemCalls&) = delete;
  ~SystemCalls();

  bool is_dead() const { return is_dead_; }

  // Makes a call as the hook says. For the calls that the linker has put in place.
  std::int64_t make(const Call& call, const std::function<std::int64_t()>& real);

 private:
  std::int64_t make_outside(const Call& call, const std::function<std::int64_t()>& real);
  std::int64_t log(const Call& call, const std::function<std::int64_t()>& action);

  const Hook hook_;
  const Log log_;
  SystemCalls* const outer_;  // the one that is asked next
  std::mutex mutex_;          // of calls that are logged
  std::atomic<bool> is_dead_ = false;
};

}  // namespace tzmark::test
