// Waiting for a lock that another process holds, and what becomes of finished files if it cannot be had.
//
// Errors: TZE-ENV rules.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark {

struct AwaitedLock {
  std::function<bool()> try_take;  // returns whether the lock is held now
  std::string awaited;             // "another process that ..."
  std::string refusal;             // the error
};

// Returns once the lock is held. After a second, tells what it waits for. Throws TZE-ENV-008 after wait.elapsed_max.
void wait_for_lock(const AwaitedLock& lock, const NamesWait& wait);

// The finished files keep their temporary names, which the error that is thrown adds to this one.
[[noreturn]] void keep_finished(std::span<AtomicFile* const> finished, const Error& error);

}  // namespace tzmark
