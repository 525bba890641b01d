// The choice of who goes on, and the functions of the system that ask for it.
#include "testing/threads/interleavings.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <unordered_set>
#include <utility>
#include <vector>

namespace tzmark::test {
namespace {

// The system's own definition of a function that this file defines.
template <typename Function>
Function* system_function(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int system_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
  static const auto create = system_function<decltype(pthread_create)>("pthread_create");
  return create(handle, attributes, work, argument);
}

// Keeps the calling thread, and those that it starts, on one core: only one of them runs, and to wake a thread of
// another core takes up to fifteen times as long. Where the system does not permit it, it is only slower.
class OneCore {
 public:
  OneCore() {
    const int core = ::sched_getcpu();
    if (core < 0 || core >= CPU_SETSIZE || ::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<unsigned>(core), &one);
    is_set_ = ::sched_setaffinity(0, sizeof one, &one) == 0;
  }
  ~OneCore() {
    if (is_set_) ::sched_setaffinity(0, sizeof before_, &before_);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

 private:
  cpu_set_t before_ = {};
  bool is_set_ = false;
};

enum class Wait : std::uint8_t { kNothing, kTurn, kMutex, kSignal, kThread };

// std::binary_semaphore looks for some time before it waits, which takes the core from the thread that would release.
class Turn {
 public:
  Turn() { ::sem_init(&semaphore_, 0, 0); }
  ~Turn() { ::sem_destroy(&semaphore_); }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  void release() { ::sem_post(&semaphore_); }
  void acquire() {
    while (::sem_wait(&semaphore_) != 0) {
    }
  }

 private:
  sem_t semaphore_;
};

struct Thread {
  unsigned number = 0;
  Wait wait = Wait::kNothing;
  bool is_done = false, is_joined = false;
  bool is_timed = false, timed_out = false;  // of a wait for a signal
  const void* awaited = nullptr;             // the mutex, condition or thread
  pthread_mutex_t* mutex = nullptr;          // to be taken again after a signal
  std::string step;                          // see note_step
  std::string place;                         // where it waits: addresses of its calls
  pthread_t handle = {};
  std::function<void*()> work;
  Turn go;
};

// One thread at a time is between two calls of switch_from: the one that runs. So nothing here needs a lock.
class Orders {
 public:
  explicit Orders(const InterleavingOptions& options) : options_(options) {}

  InterleavingCounts explore(const std::function<void()>& body);

  void lock(pthread_mutex_t* mutex);
  void unlock(const pthread_mutex_t* mutex) {
    std::erase_if(held_, [&](const Held& h) { return h.mutex == mutex; });
  }
  bool wait(const void* condition, pthread_mutex_t* mutex, bool is_timed);
  void signal(const void* condition, bool all);
  int create(pthread_t* handle, const pthread_attr_t* attributes, void* (*work)(void*), void* argument);
  void join(pthread_t handle);
  void* run(Thread& thread);

 private:
  struct Held {
    const pthread_mutex_t* mutex;
    const Thread* by;
  };
  struct Candidate {
    Thread* thread;
    unsigned cost;  // interruptions
    bool is_early;
  };
  struct Choice {
    std::vector<std::size_t> open;  // options that are not tried, the present one last
  };

  bool is_free(const void* mutex) const {
    return std::ranges::none_of(held_, [&](const Held& h) { return h.mutex == mutex; });
  }
  bool may_go_on(const Thread& t) const;
  std::vector<Candidate> candidates(const Thread* self) const;
  std::size_t pick(const std::vector<unsigned>& costs);
  void grant(const Candidate& chosen);
  void switch_from(Thread* self);
  std::string describe() const;
  [[noreturn]] void report_deadlock() const;

  const InterleavingOptions& options_;
  InterleavingCounts counts_;
  std::vector<Choice> trail_;
  std::size_t depth_ = 0;
  unsigned interruptions_ = 0, early_wakes_ = 0;
  bool is_known_ = false;  // whether the rest of this order was tried from an earlier state
  std::unordered_set<std::string> states_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Held> held_;
};

Orders* orders = nullptr;
thread_local Thread* self_thread = nullptr;
// While the code here runs, whose own locks are not chosen.
thread_local bool is_inside = false;

struct Inside {
  Inside() { is_inside = true; }
  ~Inside() { is_inside = false; }
};

bool is_ordered() { return self_thread != nullptr && !is_inside; }

std::string place_of_caller() {
  std::array<void*, 12> frames;
  const int count = ::backtrace(frames.data(), static_cast<int>(frames.size()));
  // The first ones are those of this file.
  return {reinterpret_cast<const char*>(frames.data()), static_cast<std::size_t>(count) * sizeof(void*)};
}

bool Orders::may_go_on(const Thread& t) const {
  switch (t.wait) {
    case Wait::kTurn:
      return true;
    case Wait::kMutex:
      return is_free(t.awaited);
    case Wait::kThread:
      return static_cast<const Thread*>(t.awaited)->is_done;
    default:
      return false;
  }
}

std::vector<Orders::Candidate> Orders::candidates(const Thread* self) const {
  std::vector<Candidate> found;
  const bool interrupts = self != nullptr && may_go_on(*self);
  for (const auto& t : threads_) {
    if (!may_go_on(*t)) continue;
    const Candidate one{t.get(), interrupts && t.get() != self, false};
    // Without an interruption the running thread goes on.
    found.insert(t.get() == self ? found.begin() : found.end(), one);
  }
  const bool none = found.empty();
  for (const auto& t : threads_) {
    if (t->wait != Wait::kSignal || !is_free(t->mutex)) continue;
    if (none && t->is_timed) found.push_back({t.get(), 0, false});
    if (!none && early_wakes_ < options_.early_wakes_max) found.push_back({t.get(), 1, true});
  }
  return found;
}

// Chooses one of several options, by the order that is tried now. costs: interruptions of each.
std::size_t Orders::pick(const std::vector<unsigned>& costs) {
  std::vector<std::size_t> affordable;
  for (std::size_t i = 0; i < costs.size(); ++i) {
    if (costs[i] == 0 || interruptions_ + costs[i] <= options_.interruptions_max) affordable.push_back(i);
  }
  if (affordable.size() == 1 || is_known_) return affordable.front();
  if (depth_ == trail_.size()) {
    if (options_.state && !states_.insert(describe()).second && !options_.repeats_states) {
      is_known_ = true;
      return affordable.front();
    }
    std::ranges::reverse(affordable);
    trail_.push_back({affordable});
    ++counts_.choices;
  }
  return trail_[depth_++].open.back();
}

std::string Orders::describe() const {
  std::string text = options_.state();
  for (const auto& t : threads_) {
    text += '|';
    text += static_cast<char>('0' + static_cast<int>(t->wait));
    text += t->is_done ? 'd' : t->is_timed ? 't' : ' ';
    text.append(reinterpret_cast<const char*>(&t->awaited), sizeof t->awaited);
    text += t->place;
    text += t->step;
  }
  for (const Held& h : held_) text += "h" + std::to_string(h.by->number);
  return text;
}

void Orders::report_deadlock() const {
  std::fprintf(stderr, "deadlock after %llu orders: all threads wait:\n",
               static_cast<unsigned long long>(counts_.runs));
  for (const auto& t : threads_) {
    if (t->is_done) continue;
    std::fprintf(stderr, "  thread %u waits for a %s; last step: %s\n", t->number,
                 t->wait == Wait::kMutex    ? "mutex"
                 : t->wait == Wait::kSignal ? "signal"
                                            : "thread",
                 t->step.c_str());
  }
  std::fprintf(stderr, "choices:");
  for (std::size_t i = 0; i < depth_; ++i) std::fprintf(stderr, " %zu", trail_[i].open.back());
  std::fprintf(stderr, "\n");
  std::_Exit(kDeadlockStatus);
}

void Orders::grant(const Candidate& chosen) {
  Thread& t = *chosen.thread;
  interruptions_ += chosen.cost;
  early_wakes_ += chosen.is_early;
  t.timed_out = t.wait == Wait::kSignal && t.is_timed;
  if (t.wait == Wait::kMutex) held_.push_back({static_cast<const pthread_mutex_t*>(t.awaited), &t});
  if (t.wait == Wait::kSignal) held_.push_back({t.mutex, &t});
  t.wait = Wait::kNothing;
  t.is_timed = false;
}

// Lets the thread go on that is chosen, and returns when the caller is. self: the caller, or null if it has ended.
void Orders::switch_from(Thread* self) {
  const std::vector<Candidate> found = candidates(self);
  if (found.empty()) report_deadlock();
  std::vector<unsigned> costs;
  for (const Candidate& c : found) costs.push_back(c.cost);
  const Candidate chosen = found[pick(costs)];
  grant(chosen);
  if (chosen.thread == self) return;
  chosen.thread->go.release();
  if (self != nullptr) self->go.acquire();
}

void Orders::lock(pthread_mutex_t* mutex) {
  Thread& self = *self_thread;
  self.wait = Wait::kMutex;
  self.awaited = mutex;
  if (options_.state) self.place = place_of_caller();
  switch_from(&self);
}

bool Orders::wait(const void* condition, pthread_mutex_t* mutex, bool is_timed) {
  Thread& self = *self_thread;
  unlock(mutex);
  self.wait = Wait::kSignal;
  self.awaited = condition;
  self.mutex = mutex;
  self.is_timed = is_timed;
  self.timed_out = false;
  if (options_.state) self.place = place_of_caller();
  switch_from(&self);
  return self.timed_out;
}

void Orders::signal(const void* condition, bool all) {
  std::vector<Thread*> waiting;
  for (const auto& t : threads_) {
    if (t->wait == Wait::kSignal && t->awaited == condition) waiting.push_back(t.get());
  }
  if (!all && waiting.size() > 1) {
    if (options_.state) self_thread->place = place_of_caller();
    Thread* const one = waiting[pick(std::vector<unsigned>(waiting.size(), 0))];
    waiting = {one};
  }
  for (Thread* t : waiting) {
    t->wait = Wait::kMutex;
    t->awaited = t->mutex;
    t->is_timed = false;
  }
}

int Orders::create(pthread_t* handle, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) {
  auto thread = std::make_unique<Thread>();
  thread->number = static_cast<unsigned>(threads_.size());
  thread->work = [work, argument] { return work(argument); };
  thread->wait = Wait::kTurn;
  const int failed = system_create(
      handle, attributes, [](void* of) { return orders->run(*static_cast<Thread*>(of)); }, thread.get());
  if (failed != 0) return failed;
  thread->handle = *handle;
  threads_.push_back(std::move(thread));
  return 0;
}

void* Orders::run(Thread& thread) {
  thread.go.acquire();
  self_thread = &thread;
  void* const result = thread.work();
  self_thread = nullptr;
  thread.is_done = true;
  switch_from(nullptr);
  return result;
}

void Orders::join(pthread_t handle) {
  Thread& self = *self_thread;
  const auto other = std::ranges::find_if(
      threads_, [&](const auto& t) { return !t->is_joined && ::pthread_equal(t->handle, handle) != 0; });
  if (other == threads_.end()) return;
  (*other)->is_joined = true;
  self.wait = Wait::kThread;
  self.awaited = other->get();
  if (options_.state) self.place = place_of_caller();
  switch_from(&self);
}

InterleavingCounts Orders::explore(const std::function<void()>& body) {
  for (;;) {
    depth_ = 0;
    interruptions_ = early_wakes_ = 0;
    is_known_ = false;
    held_.clear();
    threads_.clear();
    threads_.push_back(std::make_unique<Thread>());
    self_thread = threads_.front().get();
    body();
    self_thread = nullptr;
    ++counts_.runs;
    while (!trail_.empty() && trail_.back().open.size() == 1) trail_.pop_back();
    counts_.states = states_.size();
    counts_.is_complete = trail_.empty();
    if (trail_.empty() || counts_.runs == options_.runs_max) return counts_;
    trail_.back().open.pop_back();
  }
}

}  // namespace

InterleavingCounts explore_interleavings(const InterleavingOptions& options, const std::function<void()>& body) {
  if (options.state &&
      (options.interruptions_max != std::numeric_limits<unsigned>::max() || options.early_wakes_max != 0)) {
    throw std::logic_error("states are only for orders with any number of interruptions, where no wait ends early");
  }
  const OneCore one_core;
  Orders all(options);
  orders = &all;
  const InterleavingCounts counts = all.explore(body);
  orders = nullptr;
  return counts;
}

void note_step(std::string step) {
  if (self_thread != nullptr) self_thread->step = std::move(step);
}

unsigned thread_number() { return self_thread == nullptr ? 0 : self_thread->number; }

}  // namespace tzmark::test

// What the system's threads, mutexes and conditions do, in code that is ordered; elsewhere the system does it.
extern "C" {

using tzmark::test::Inside;
using tzmark::test::is_ordered;
using tzmark::test::orders;
using tzmark::test::system_function;

int pthread_create(pthread_t* handle, const pthread_attr_t* attributes, void* (*work)(void*), void* argument) noexcept {
  if (!is_ordered()) return tzmark::test::system_create(handle, attributes, work, argument);
  const Inside inside;
  return orders->create(handle, attributes, work, argument);
}

int pthread_join(pthread_t handle, void** result) {
  static const auto join = system_function<decltype(pthread_join)>("pthread_join");
  if (is_ordered()) {
    const Inside inside;
    orders->join(handle);
  }
  return join(handle, result);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  static const auto lock = system_function<decltype(pthread_mutex_lock)>("pthread_mutex_lock");
  if (!is_ordered()) return lock(mutex);
  const Inside inside;
  orders->lock(mutex);
  return 0;
}

// Each try succeeds, at a time that is chosen: for code that waits for the mutex if all of its tries fail.
int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  static const auto try_lock = system_function<decltype(pthread_mutex_trylock)>("pthread_mutex_trylock");
  if (!is_ordered()) return try_lock(mutex);
  const Inside inside;
  orders->lock(mutex);
  return 0;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  static const auto unlock = system_function<decltype(pthread_mutex_unlock)>("pthread_mutex_unlock");
  if (!is_ordered()) return unlock(mutex);
  const Inside inside;
  orders->unlock(mutex);
  return 0;
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  static const auto wait = system_function<decltype(pthread_cond_wait)>("pthread_cond_wait");
  if (!is_ordered()) return wait(condition, mutex);
  const Inside inside;
  orders->wait(condition, mutex, false);
  return 0;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* end) {
  static const auto wait = system_function<decltype(pthread_cond_clockwait)>("pthread_cond_clockwait");
  if (!is_ordered()) return wait(condition, mutex, clock, end);
  const Inside inside;
  return orders->wait(condition, mutex, true) ? ETIMEDOUT : 0;
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  static const auto signal = system_function<decltype(pthread_cond_signal)>("pthread_cond_signal");
  if (!is_ordered()) return signal(condition);
  const Inside inside;
  orders->signal(condition, false);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  static const auto broadcast = system_function<decltype(pthread_cond_broadcast)>("pthread_cond_broadcast");
  if (!is_ordered()) return broadcast(condition);
  const Inside inside;
  orders->signal(condition, true);
  return 0;
}

}  // extern "C"
