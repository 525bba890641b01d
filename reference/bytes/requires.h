// Checks of preconditions: what a comment states as REQUIRES.
//
// Builds with TZMARK_CHECK_REQUIRES (the presets dev, asan-ubsan and tsan) evaluate the condition, and abort with its
// text and place if it is false. Other builds only compile it.
#pragma once

namespace tzmark {

// Prints the condition and its place to standard error, and aborts.
[[noreturn]] void abort_for_requirement(const char* condition, const char* file, int line) noexcept;

}  // namespace tzmark

#if defined(TZMARK_CHECK_REQUIRES)
#define TZMARK_REQUIRES(condition) \
  ((condition) ? static_cast<void>(0) : ::tzmark::abort_for_requirement(#condition, __FILE__, __LINE__))
#else
#define TZMARK_REQUIRES(condition) static_cast<void>(sizeof(!(condition)))
#endif
