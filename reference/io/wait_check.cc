// See io/wait_check.h.
#include "io/wait_check.h"

#include <atomic>

#include "tzmark/io.h"

namespace tzmark {
namespace {

std::atomic<WaitCheck> current = nullptr;

}  // namespace

void set_wait_check(WaitCheck check) { current = check; }

void check_wait() {
  if (const WaitCheck check = current) check();
}

}  // namespace tzmark
