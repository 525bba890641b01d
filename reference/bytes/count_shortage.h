// Increments the counters of tzmark/shortage.h. Thread-safe.
#pragma once

#include <cstdint>

#include "tzmark/shortage.h"

namespace tzmark {

void count_missing_threads(std::uint64_t threads);
void count_transfer_in_place();

}  // namespace tzmark
