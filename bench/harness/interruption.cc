// The handler only stores and restores; see interruption.h.
#include "harness/interruption.h"

#include <signal.h>
#include <time.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace tzmark::bench {
namespace {

constexpr std::array kEndingSignals = {SIGINT, SIGTERM};

// timeout(1) signals the process and then its group, so that one request arrives twice.
constexpr std::int64_t kOneRequestNs = 200'000'000;

std::atomic<int> arrived = 0;
std::atomic<std::int64_t> arrived_at_ns = 0;
std::array<struct sigaction, kEndingSignals.size()> handled_before{};

void restore_handlers() {
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    if (handled_before[i].sa_handler != SIG_IGN) ::sigaction(kEndingSignals[i], &handled_before[i], nullptr);
  }
}

// A clock that signal handlers may read.
std::int64_t monotonic_ns() {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec;
}

extern "C" void leave_mark(int number) {
  if (arrived == 0) {
    arrived_at_ns = monotonic_ns();
    arrived = number;
  } else if (monotonic_ns() - arrived_at_ns >= kOneRequestNs) {
    restore_handlers();
    // Delivered when this handler returns.
    ::raise(number);
  }
}

}  // namespace

Interruption::Interruption() {
  arrived = 0;
  struct sigaction action {};
  action.sa_handler = leave_mark;
  // The one that arrives first decides.
  ::sigfillset(&action.sa_mask);
  // Transfers in progress go on.
  action.sa_flags = SA_RESTART;
  for (std::size_t i = 0; i < kEndingSignals.size(); ++i) {
    ::sigaction(kEndingSignals[i], nullptr, &handled_before[i]);
    if (handled_before[i].sa_handler != SIG_IGN) ::sigaction(kEndingSignals[i], &action, nullptr);
  }
}

Interruption::~Interruption() { restore_handlers(); }

int Interruption::number() { return arrived; }

void Interruption::check() {
  if (number() != 0) throw Interrupted();
}

}  // namespace tzmark::bench
