// What tzmark tune prints: the answers on one screen. Thread-safe.
#pragma once

#include <string>

#include "cli/tune/tune_outcome.h"

namespace tzmark::bench {

std::string tune_summary(const TuneOutcome& outcome);
// What a trial of an advice says, with its interval: "tried: +12 % (+8 to +16)".
std::string effect_text(const RatioInterval& effect);

}  // namespace tzmark::bench
