// For tests: system calls that fail, or move less than they were asked for, at a chosen call.
//
// Those that system_calls.h asks about, and calls of stdio, of madvise and of liburing, which are wrapped here. Counted
// are the calls by which the paths move bytes, make room and sync, those that change names, and each completion of a
// ring. One at a time may be armed; the calls themselves may come from any threads.
#pragma once

#include <cstdint>
#include <optional>

#include "testing/faults/system_calls.h"

namespace tzmark::test {

enum class Fault {
  kNone,     // only counts
  kError,    // EIO
  kNoSpace,  // ENOSPC
  kInterrupted,
  kAgain,  // of calls that move bytes; the others are never told to try again
  kShort,  // of calls that move bytes: half of it
};

// Meets the call of this number, counted from 0 since the object was made.
class SystemFault {
 public:
  explicit SystemFault(Fault fault, std::uint64_t call = 0);
  SystemFault(const SystemFault&) = delete;
  SystemFault& operator=(const SystemFault&) = delete;
  ~SystemFault();

  std::uint64_t calls() const;
  // Whether that call has come.
  bool is_met() const;

 private:
  std::optional<SystemCalls> system_calls_;
};

// Makes io_uring_setup fail while it lives.
class RefusedRings {
 public:
  // error_number: what setup fails with. flags: only rings with one of these flags; 0 for all.
  explicit RefusedRings(int error_number, unsigned flags = 0);
  RefusedRings(const RefusedRings&) = delete;
  RefusedRings& operator=(const RefusedRings&) = delete;
  ~RefusedRings();
};

// Makes completions of rings say that the kernel refused the call, while it lives.
class RefusedCompletions {
 public:
  // count: how many of them, from now on.
  explicit RefusedCompletions(int error_number, std::uint64_t count);
  RefusedCompletions(const RefusedCompletions&) = delete;
  RefusedCompletions& operator=(const RefusedCompletions&) = delete;
  ~RefusedCompletions();

  std::uint64_t met() const;
};

// Breaks rings while it lives: from the given time on that entries are submitted, io_uring_enter fails.
class BrokenRings {
 public:
  enum class When {
    kBeforeTheKernelTakesEntries,
    kBeforeItsThreadWakes,  // of a polled ring: the entries are there to be taken, but the thread sleeps
    kAfterwards,
    kForEver,  // afterwards, and the kernel completes nothing any more
  };
  BrokenRings(When when, int error_number, std::uint64_t call = 0);
  BrokenRings(const BrokenRings&) = delete;
  BrokenRings& operator=(const BrokenRings&) = delete;
  ~BrokenRings();

  bool is_met() const;
};

// How many ring entries the kernel has taken and the program has not seen complete, over all rings so far.
std::int64_t entries_in_kernel();

// Makes one kind of call fail while it lives: what only some kernels, file systems and limits allow.
class RefusedCall {
 public:
  enum class Call {
    kRegisterBuffers,
    kRegisterFiles,
    kOpenDirect,
    kOpenWithoutName,  // O_TMPFILE
    kAllocate,
    kPopulate,
    kDontcache,
    kExchange,      // renameat2 with RENAME_EXCHANGE
    kRenameToFree,  // renameat2 with RENAME_NOREPLACE
    kLink,          // linkat
    kRename,        // with and without flags
    kSyncDirectory,
    kChangeOwner,  // fchown
  };
  RefusedCall(Call call, int error_number);
  RefusedCall(const RefusedCall&) = delete;
  RefusedCall& operator=(const RefusedCall&) = delete;
  ~RefusedCall();

 private:
  const Call call_;
  std::optional<SystemCalls> system_calls_;
};

}  // namespace tzmark::test
