// The faults, and the wrapped calls of stdio, madvise and liburing. CMake reads their names from this file, as from
// system_calls.cc.
#include "testing/faults/system_faults.h"

#include <fcntl.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <functional>
#include <stdexcept>
#include <thread>

namespace tzmark::test {
namespace {

struct Plan {
  std::atomic<bool> armed = false;
  std::atomic<Fault> fault = Fault::kNone;
  std::atomic<std::uint64_t> call = 0;
  std::atomic<std::uint64_t> calls = 0;
};

Plan plan;
std::array<std::atomic<int>, 13> refused{};
std::atomic<int> refused_rings = 0;
std::atomic<unsigned> refused_ring_flags = 0;

struct Refusals {
  std::atomic<int> error_number = 0;
  std::atomic<std::uint64_t> left = 0;
  std::atomic<std::uint64_t> met = 0;
};
Refusals refusals;

struct Breaking {
  std::atomic<bool> armed = false;
  std::atomic<BrokenRings::When> when{};
  std::atomic<int> error_number = 0;
  std::atomic<std::uint64_t> call = 0;
  std::atomic<std::uint64_t> calls = 0;

  bool is_met() const { return armed && calls > call; }
};
Breaking breaking;
std::atomic<std::int64_t> in_kernel = 0;

// Shows entries to the thread of a polled ring as io_uring_submit does, but only when it has fallen asleep.
void show_while_the_thread_sleeps(const io_uring& ring) {
  while ((io_uring_smp_load_acquire(ring.sq.kflags) & IORING_SQ_NEED_WAKEUP) == 0) std::this_thread::yield();
  io_uring_smp_store_release(ring.sq.ktail, ring.sq.sqe_tail);
}

// A call that hands entries to the kernel, and one that does no more than that.
using Submit = std::function<int()>;
int entering(const io_uring& ring, const Submit& call, const Submit& submit_only) {
  const bool breaks = breaking.armed && breaking.calls.fetch_add(1) >= breaking.call;
  if (breaks && breaking.when == BrokenRings::When::kBeforeTheKernelTakesEntries) return -breaking.error_number;
  // The thread of a polled ring takes entries at any time; they are its own from the moment when they are shown to it.
  const bool is_polled = (ring.flags & IORING_SETUP_SQPOLL) != 0;
  const unsigned* const taken = is_polled ? ring.sq.ktail : ring.sq.khead;
  const unsigned before = *taken;
  const bool sleeps = breaks && is_polled && breaking.when == BrokenRings::When::kBeforeItsThreadWakes;
  if (sleeps) show_while_the_thread_sleeps(ring);
  const int result = sleeps ? 0 : breaks ? submit_only() : call();
  in_kernel += *taken - before;
  return breaks ? -breaking.error_number : result;
}

// The fault that meets this call.
Fault next_fault() {
  if (!plan.armed) return Fault::kNone;
  return plan.calls.fetch_add(1) == plan.call ? plan.fault.load() : Fault::kNone;
}

int error_number_of(Fault fault) {
  switch (fault) {
    case Fault::kError:
      return EIO;
    case Fault::kNoSpace:
      return ENOSPC;
    case Fault::kInterrupted:
      return EINTR;
    case Fault::kAgain:
      return EAGAIN;
    case Fault::kNone:
    case Fault::kShort:
      break;
  }
  return 0;
}

// A call of stdio that moves bytes: its errors are zeros, and a mark in the stream.
template <typename Call>
std::size_t streaming(std::FILE* stream, Call&& call) {
  const Fault fault = next_fault();
  if (const int error_number = error_number_of(fault)) {
    errno = error_number;
    stream->_flags |= _IO_ERR_SEEN;
    return 0;
  }
  const std::size_t moved = call(fault == Fault::kShort ? 2 : 1);
  return moved;
}

// A call that is done or not.
template <typename Call>
int doing(Call&& call) {
  const Fault fault = next_fault();
  const int error_number = fault == Fault::kAgain ? 0 : error_number_of(fault);
  if (error_number == 0) return call();
  errno = error_number;
  return -1;
}

// What the fault makes of a call that the interposer asks about. A call that changes a name is never interrupted.
Reply reply_to(const Call& call) {
  const std::string_view function = call.function;
  const bool moves = call.kind == Call::Kind::kRead || call.kind == Call::Kind::kWrite;
  const bool names = function == "renameat2" || function == "renameat" || function == "linkat";
  const bool is_counted = moves || names || function == "fsync" || function == "ftruncate" || function == "fallocate";
  const Fault fault = is_counted ? next_fault() : Fault::kNone;
  if (fault == Fault::kShort && moves) return Reply::half();
  const int error_number = error_number_of(fault);
  if (error_number == 0 || (fault == Fault::kAgain && !moves) || (fault == Fault::kInterrupted && names)) return true;
  return Reply::failure(error_number);
}

bool is_of(const Call& call, RefusedCall::Call kind) {
  const std::string_view function = call.function;
  switch (kind) {
    case RefusedCall::Call::kOpenDirect:
      return function == "open" && (call.flags & O_DIRECT) != 0;
    case RefusedCall::Call::kOpenWithoutName:
      return function == "openat" && (call.flags & O_TMPFILE) == O_TMPFILE;
    case RefusedCall::Call::kAllocate:
      return function == "fallocate";
    case RefusedCall::Call::kDontcache:
      return function == "preadv2";
    case RefusedCall::Call::kExchange:
      return function == "renameat2" && (call.flags & RENAME_EXCHANGE) != 0;
    case RefusedCall::Call::kRenameToFree:
      return function == "renameat2" && (call.flags & RENAME_EXCHANGE) == 0;
    case RefusedCall::Call::kLink:
      return function == "linkat";
    case RefusedCall::Call::kRename:
      return function.starts_with("renameat");
    case RefusedCall::Call::kSyncDirectory:
      return call.kind == Call::Kind::kSyncDirectory;
    case RefusedCall::Call::kChangeOwner:
      return function == "fchown";
    case RefusedCall::Call::kRegisterBuffers:
    case RefusedCall::Call::kRegisterFiles:
    case RefusedCall::Call::kPopulate:
      break;
  }
  return false;
}

int refusal_of(RefusedCall::Call call) { return refused[static_cast<std::size_t>(call)]; }

}  // namespace

SystemFault::SystemFault(Fault fault, std::uint64_t call) {
  if (plan.armed) throw std::logic_error("one fault at a time");
  plan.fault = fault;
  plan.call = call;
  plan.calls = 0;
  plan.armed = true;
  system_calls_.emplace(reply_to);
}

SystemFault::~SystemFault() { plan.armed = false; }

std::uint64_t SystemFault::calls() const { return plan.calls; }
bool SystemFault::is_met() const { return plan.calls > plan.call; }

RefusedCompletions::RefusedCompletions(int error_number, std::uint64_t count) {
  refusals.met = 0;
  refusals.left = count;
  refusals.error_number = error_number;
}

RefusedCompletions::~RefusedCompletions() { refusals.error_number = 0; }

std::uint64_t RefusedCompletions::met() const { return refusals.met; }

BrokenRings::BrokenRings(When when, int error_number, std::uint64_t call) {
  breaking.when = when;
  breaking.error_number = error_number;
  breaking.call = call;
  breaking.calls = 0;
  breaking.armed = true;
}

BrokenRings::~BrokenRings() { breaking.armed = false; }

bool BrokenRings::is_met() const { return breaking.is_met(); }

std::int64_t entries_in_kernel() { return in_kernel; }

RefusedRings::RefusedRings(int error_number, unsigned flags) {
  refused_ring_flags = flags;
  refused_rings = error_number;
}

RefusedRings::~RefusedRings() { refused_rings = 0; }

RefusedCall::RefusedCall(Call call, int error_number) : call_(call) {
  refused[static_cast<std::size_t>(call)] = error_number;
  system_calls_.emplace([=](const test::Call& made) -> Reply {
    if (is_of(made, call)) return Reply::failure(error_number);
    return true;
  });
}

RefusedCall::~RefusedCall() { refused[static_cast<std::size_t>(call_)] = 0; }

}  // namespace tzmark::test

// The names are the linker's.
// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
using namespace tzmark::test;

extern "C" {

#define TZMARK_WRAP(result, name, ...) \
  result __real_##name(__VA_ARGS__);   \
  result __wrap_##name(__VA_ARGS__);   \
  result __wrap_##name(__VA_ARGS__)

TZMARK_WRAP(size_t, fread, void* memory, size_t size, size_t count, FILE* stream) {
  return streaming(stream, [&](size_t part) { return __real_fread(memory, size, (count + part - 1) / part, stream); });
}

TZMARK_WRAP(size_t, fwrite, const void* memory, size_t size, size_t count, FILE* stream) {
  return streaming(stream, [&](size_t part) { return __real_fwrite(memory, size, (count + part - 1) / part, stream); });
}

TZMARK_WRAP(int, fflush, FILE* stream) {
  // The program's own output is irrelevant here.
  if (stream == stdout || stream == stderr || stream == nullptr) return __real_fflush(stream);
  return doing([&] { return __real_fflush(stream); });
}

TZMARK_WRAP(int, fseeko, FILE* stream, off_t offset, int whence) {
  return doing([&] { return __real_fseeko(stream, offset, whence); });
}

TZMARK_WRAP(int, madvise, void* memory, size_t bytes, int advice) {
  const bool populates = advice == MADV_POPULATE_READ || advice == MADV_POPULATE_WRITE;
  if (!populates) return __real_madvise(memory, bytes, advice);
  if (const int error_number = refusal_of(RefusedCall::Call::kPopulate)) {
    errno = error_number;
    return -1;
  }
  return doing([&] { return __real_madvise(memory, bytes, advice); });
}

TZMARK_WRAP(unsigned, io_uring_peek_batch_cqe, io_uring* ring, io_uring_cqe** completions, unsigned count) {
  if (breaking.is_met() && breaking.when == BrokenRings::When::kForEver) return 0;
  const unsigned found = __real_io_uring_peek_batch_cqe(ring, completions, count);
  in_kernel -= found;
  for (unsigned i = 0; i < found; ++i) {
    io_uring_cqe& completion = *completions[i];
    if (refusals.error_number != 0 && refusals.met < refusals.left) {
      ++refusals.met;
      completion.res = -refusals.error_number;
      continue;
    }
    const Fault fault = next_fault();
    if (const int error_number = error_number_of(fault)) completion.res = -error_number;
    if (fault == Fault::kShort && completion.res > 1) completion.res /= 2;
  }
  return found;
}

TZMARK_WRAP(int, io_uring_submit, io_uring* ring) {
  const Submit submit = [&] { return __real_io_uring_submit(ring); };
  return entering(*ring, submit, submit);
}

TZMARK_WRAP(int, io_uring_submit_and_wait, io_uring* ring, unsigned count) {
  return entering(
      *ring, [&] { return __real_io_uring_submit_and_wait(ring, count); },
      [&] { return __real_io_uring_submit(ring); });
}

TZMARK_WRAP(int, io_uring_enter, unsigned ring, unsigned entries, unsigned completions, unsigned flags,
            sigset_t* signals) {
  // A ring that breaks for a while can be asked again: every other call fails.
  static std::atomic<unsigned> calls = 0;
  const bool fails = breaking.is_met() && (breaking.when == BrokenRings::When::kForEver || ++calls % 2 == 0);
  return fails ? -breaking.error_number : __real_io_uring_enter(ring, entries, completions, flags, signals);
}

TZMARK_WRAP(int, nanosleep, const timespec* time, timespec* left) {
  // Waiting for ever is tested in no time.
  const bool for_ever = breaking.is_met() && breaking.when == BrokenRings::When::kForEver;
  return for_ever ? 0 : __real_nanosleep(time, left);
}

TZMARK_WRAP(int, io_uring_queue_init_params, unsigned entries, io_uring* ring, io_uring_params* parameters) {
  const unsigned flags = refused_ring_flags;
  const bool concerned = flags == 0 || (parameters->flags & flags) != 0;
  if (concerned && refused_rings != 0) return -refused_rings;
  return __real_io_uring_queue_init_params(entries, ring, parameters);
}

TZMARK_WRAP(int, io_uring_register_buffers, io_uring* ring, const iovec* pieces, unsigned count) {
  if (const int error_number = refusal_of(RefusedCall::Call::kRegisterBuffers)) return -error_number;
  return __real_io_uring_register_buffers(ring, pieces, count);
}

TZMARK_WRAP(int, io_uring_register_files, io_uring* ring, const int* files, unsigned count) {
  if (const int error_number = refusal_of(RefusedCall::Call::kRegisterFiles)) return -error_number;
  return __real_io_uring_register_files(ring, files, count);
}

}  // extern "C"
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
