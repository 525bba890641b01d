// Uploads that a person may end: their parts are removed from the server first.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string>

#include "bytes/utf8.h"
#include "program/standard_streams.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::cli {

// Holds back the signals by which people end a program, until its end: an upload that they end removes its parts first.
// One at a time, before any thread is started.
class SignalsHeld {
 public:
  SignalsHeld() {
    const sigset_t all = signals();
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~SignalsHeld() {
    set_wait_check(nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

  static bool are_pending() {
    sigset_t pending;
    ::sigpending(&pending);
    return std::ranges::any_of(kSignals, [&](int number) { return ::sigismember(&pending, number) == 1; });
  }
  static void check() {
    if (are_pending()) throw Error(ErrorCode::kWriteFailed, "interrupted");
  }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};

  static sigset_t signals() {
    sigset_t set;
    ::sigemptyset(&set);
    for (const int number : kSignals) ::sigaddset(&set, number);
    return set;
  }

  sigset_t before_{};
};

// Runs an upload, which a signal ends with an error that is told, as the signal then ends the program.
template <typename Upload>
void with_signals_held(const std::string& url, const Upload& upload) {
  const SignalsHeld signals;
  set_wait_check(&SignalsHeld::check);
  try {
    upload();
  } catch (const Error& error) {
    if (SignalsHeld::are_pending()) tell(fmt::format("tzmark: {}: {}", printable(url), error.message()));
    throw;
  }
}

}  // namespace tzmark::cli
