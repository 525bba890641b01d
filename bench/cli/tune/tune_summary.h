// What tzmark tune prints: the answers on one screen. Thread-safe.
#pragma once

#include <string>

#include "cli/tune/tune_outcome.h"

namespace tzmark::bench {

std::string tune_summary(const TuneOutcome& outcome);

}  // namespace tzmark::bench
