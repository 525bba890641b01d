// Keeps credentials out of core dumps.
#pragma once

namespace tzmark {

// Excludes the memory of this process from its core dumps, by 0 in /proc/self/coredump_filter: libcurl copies keys, so
// that no single page can be excluded. Registers and notes stay. Only the first call writes, so that a value that is
// set afterwards stays. Child processes inherit it. A failure is ignored. Thread-safe.
void exclude_memory_from_core_dumps() noexcept;

}  // namespace tzmark
