// The end of a process that broke a precondition.
#include "bytes/requires.h"

#include <cstdio>
#include <cstdlib>

namespace tzmark {

void abort_for_requirement(const char* condition, const char* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: REQUIRES %s\n", file, line, condition);
  std::abort();
}

}  // namespace tzmark
