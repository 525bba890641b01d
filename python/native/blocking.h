// Long calls that do not hold the interpreter's lock and that a signal ends.
//
// The work runs in a thread of its own, which has ended when the call returns. The calling thread waits, and wakes up
// often enough to run Python's signal handlers and to tell a progress callback how far the work is.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>

#include "py.h"
#include "tzmark/reader.h"

namespace tzmark::py {

// Thrown through the codec by work that is to end early. Its text is for the other ranks of a group.
struct Cancelled final : std::exception {
  const char* what() const noexcept override { return "interrupted"; }
};

// Counts the bytes that calls on one reader or writer have processed, and ends them. Thread-safe; it outlives the
// calls.
class Meter {
 public:
  // For the codec: counts, and throws Cancelled if a call is to end.
  void add(std::uint64_t bytes) {
    done_ += bytes;
    check();
  }
  void check() const {
    if (cancelling_ != 0) throw Cancelled{};
  }
  // The same for all meters, in threads that wait for a server and know no meter.
  static void check_any() {
    if (any_cancelling_ != 0) throw Cancelled{};
  }
  std::uint64_t done() const { return done_; }
  bool cancelling() const { return cancelling_ != 0 || any_cancelling_ != 0; }

  // Ends all calls that use this meter, as long as it exists.
  class Cancel {
   public:
    // ends_waits: also those of other meters for a server, as a wait knows no meter.
    Cancel(Meter& meter, bool ends_waits) : meter_(meter), waits_(ends_waits ? 1 : 0) {
      ++meter_.cancelling_;
      any_cancelling_ += waits_;
    }
    ~Cancel() {
      any_cancelling_ -= waits_;
      --meter_.cancelling_;
    }
    Cancel(const Cancel&) = delete;
    Cancel& operator=(const Cancel&) = delete;

   private:
    Meter& meter_;
    const unsigned waits_;
  };

 private:
  std::atomic<std::uint64_t> done_ = 0;
  std::atomic<unsigned> cancelling_ = 0;
  static inline std::atomic<unsigned> any_cancelling_ = 0;
};

// A call of run_blocking.
struct Blocking {
  Meter& meter;
  std::uint64_t total_bytes;     // what the work processes; a small amount runs in the calling thread
  PyObject* progress = nullptr;  // a callable of (done, total), in bytes; or None, or null
  bool may_wait = false;         // the work may take long although it has few bytes
  // Counts instead of total_bytes if it is not null: set by work that learns only then how much it is.
  const std::atomic<std::uint64_t>* total_bytes_later = nullptr;
};

// Runs the work without the interpreter's lock, and rethrows what it throws. Throws PythonError if a signal handler or
// the callback raised an exception; the work has then ended, by Cancelled if it asks the meter. If another call on the
// same meter ends early, or any call while this one waits for a server, the work may run twice.
void run_blocking(const Blocking& call, const std::function<void()>& work);

}  // namespace tzmark::py
