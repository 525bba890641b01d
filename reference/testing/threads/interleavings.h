// Runs code with several threads in one order after another, until each order of its critical sections was tried.
//
// The file of the same name defines pthread_mutex_lock, pthread_cond_wait and their like, so that a program that links
// it decides which thread gets a mutex next, which waiting thread a signal wakes, and when a wait times out. One thread
// runs at a time. What a thread does without a lock counts as one step with what it does before: the orders are those
// of critical sections, and a data race is not found (the thread sanitizer finds it). Not for programs with a
// sanitizer, whose own definitions these would replace.
//
// Orders are tried by depth first. With a description of the state, an order is given up where it reaches a state that
// an earlier one has reached, so that each reachable state is tried once with each thread that can go on from there.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

namespace tzmark::test {

struct InterleavingOptions {
  // A thread that could go on is interrupted at most so often in one order. A wait that ends without a signal, or at
  // its time although another thread could go on, counts as well.
  unsigned interruptions_max = std::numeric_limits<unsigned>::max();
  // Waits that end early, in one order.
  unsigned early_wakes_max = 0;
  // What the further course depends on, besides what the threads wait for and where: the same text for the same state.
  // Called while all threads stand still. Only with unlimited interruptions, and without waits that end early.
  std::function<std::string()> state = {};
  bool repeats_states = false;  // counts states, and gives no order up: to check that a description suffices
  std::uint64_t runs_max = std::numeric_limits<std::uint64_t>::max();
};

struct InterleavingCounts {
  std::uint64_t runs = 0;
  std::uint64_t choices = 0;  // between two threads or more
  std::uint64_t states = 0;   // that differ, with a description of the state
  bool is_complete = false;   // whether each order was tried, within the limits of interruptions
};

// Calls body once per order, in the calling thread; the threads that it starts and joins are the ones that are ordered.
// body checks what holds after each order. If all threads wait for each other, prints the order and ends the process
// with kDeadlockStatus, because they cannot be ended. Not for two threads at a time.
InterleavingCounts explore_interleavings(const InterleavingOptions& options, const std::function<void()>& body);

inline constexpr int kDeadlockStatus = 86;

// Adds to the description of the calling thread: what it did last, if its next steps depend on it. For code that runs
// without a lock.
void note_step(std::string step);

// The number of the calling thread: 0 is that of body, others are counted in the order in which they were started.
unsigned thread_number();

}  // namespace tzmark::test
