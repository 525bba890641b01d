// See os/lock_wait.h.
#include "os/lock_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "os/atomic_file.h"

namespace tzmark {
namespace {

using namespace std::chrono_literals;

constexpr auto kPause = 20ms;
constexpr std::chrono::milliseconds kQuiet = 1s;  // most locks are held for less

}  // namespace

void wait_for_lock(const AwaitedLock& lock, const NamesWait& wait) {
  const auto begin = std::chrono::steady_clock::now();
  bool is_told = !wait.notice;
  while (!lock.try_take()) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited >= wait.elapsed_max) throw Error(ErrorCode::kFileLocked, lock.refusal);
    if (!is_told && waited >= std::min(kQuiet, wait.elapsed_max / 2)) {
      is_told = true;
      wait.notice(fmt::format("waiting for {}; this process waits for up to {} s", lock.awaited,
                              std::chrono::ceil<std::chrono::seconds>(wait.elapsed_max).count()));
    }
    std::this_thread::sleep_for(kPause);
  }
}

void keep_finished(std::span<AtomicFile* const> finished, const Error& error) {
  for (AtomicFile* const file : finished) AtomicFileIn::state(*file).temporary->release();
  const auto& last = AtomicFileIn::state(*finished.back());
  const std::string kept =
      finished.size() == 1
          ? fmt::format("the new file is complete and stays as {}: rename it to {}", last.temporary->name(), last.name)
          : fmt::format(
                "the {} new files are complete and stay as NAME.tmp-XXXXXXXX, such as {}: rename them to NAME, "
                "this one last",
                finished.size(), last.temporary->name());
  throw Error(error.code(), fmt::format("{}; {}", error.message(), kept), error.offset());
}

}  // namespace tzmark
