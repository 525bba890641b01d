// What a long run at one setting says: the rate that lasts, or when it fell. Thread-safe.
#pragma once

#include "cli/rounds.h"
#include "cli/tune/tune_outcome.h"

namespace tzmark::bench {

// REQUIRES: a long run with at least one operation.
SustainedOutcome judge_sustained(const Measured& measured);

}  // namespace tzmark::bench
