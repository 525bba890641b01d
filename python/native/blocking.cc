// Long calls that do not hold the interpreter's lock and that a signal ends.
#include "blocking.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace tzmark::py {
namespace {

// Signals must be noticed within 0.2 s. Work below the size takes less than that on any storage.
constexpr std::chrono::milliseconds kWake(40);
constexpr std::uint64_t kSmallBytes = 1 << 20;

class Worker {
 public:
  explicit Worker(const std::function<void()>& work) : work_(work), thread_([this] { run(); }) {}
  // Returns whether the work has ended.
  bool wait_for(std::chrono::milliseconds time) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, time, [this] { return done_; });
  }
  // Waits for the end, and returns what the work threw.
  std::exception_ptr join() {
    thread_.join();
    return error_;
  }

 private:
  void run() {
    try {
      work_();
    } catch (...) {
      error_ = std::current_exception();
    }
    const std::lock_guard lock(mutex_);
    done_ = true;
    ended_.notify_all();
  }

  const std::function<void()>& work_;
  std::exception_ptr error_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

class Reporter {
 public:
  Reporter(const Blocking& call) : call_(call), begin_(call.meter.done()) {}
  // Calls the callback if there is one and something has changed. Throws PythonError.
  void tell() {
    if (call_.progress == nullptr || call_.progress == Py_None) return;
    const std::uint64_t done = std::min(call_.meter.done() - begin_, total());
    if (done == told_) return;
    tell(done);
  }
  void tell_end() {
    if (call_.progress == nullptr || call_.progress == Py_None || told_ == total()) return;
    tell(total());
  }

 private:
  std::uint64_t total() const {
    return call_.total_bytes_later != nullptr ? call_.total_bytes_later->load() : call_.total_bytes;
  }
  void tell(std::uint64_t done) {
    told_ = done;
    const Ref first = number(done);
    const Ref second = number(total());
    own(PyObject_CallFunctionObjArgs(call_.progress, first.get(), second.get(), nullptr));
  }

  const Blocking& call_;
  const std::uint64_t begin_;
  std::uint64_t told_ = 0;
};

void run_here(const std::function<void()>& work) {
  const Unlocked unlocked;
  work();
}

// Returns whether the work was cancelled by another call.
bool run_once(const Blocking& call, const std::function<void()>& work, Reporter& reporter) {
  try {
    if (call.total_bytes < kSmallBytes && !call.may_wait) {
      run_here(work);
      return false;
    }
    std::unique_ptr<Worker> worker;
    try {
      worker = std::make_unique<Worker>(work);
    } catch (const std::system_error&) {
      run_here(work);  // the system starts no thread
      return false;
    }
    std::exception_ptr stop;
    while (true) {
      bool ended = false;
      {
        const Unlocked unlocked;
        ended = worker->wait_for(kWake);
      }
      if (ended) break;
      try {
        check(PyErr_CheckSignals());
        reporter.tell();
      } catch (...) {
        stop = std::current_exception();
        break;
      }
    }
    std::exception_ptr error;
    if (stop) {
      // The indicator must not be set while the lock is released.
      PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
      PyErr_Fetch(&type, &value, &traceback);
      {
        const Meter::Cancel cancel(call.meter, call.may_wait);
        const Unlocked unlocked;
        static_cast<void>(worker->join());
      }
      PyErr_Restore(type, value, traceback);
      std::rethrow_exception(stop);
    }
    {
      const Unlocked unlocked;
      error = worker->join();
    }
    if (error) std::rethrow_exception(error);
    return false;
  } catch (const Cancelled&) {
    return true;
  }
}

}  // namespace

void run_blocking(const Blocking& call, const std::function<void()>& work) {
  Reporter reporter(call);
  while (run_once(call, work, reporter)) {
    while (call.meter.cancelling()) {
      check(PyErr_CheckSignals());
      const Unlocked unlocked;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  reporter.tell_end();
}

}  // namespace tzmark::py
