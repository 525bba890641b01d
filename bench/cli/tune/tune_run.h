// Runs the phases of a tuning: for each task a search, its ceilings, trials of advice and a model; then a long run.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cli/tune/tune_options.h"
#include "cli/tune/tune_outcome.h"

namespace tzmark::bench {

// Fills in the outcome while it goes on, so that it holds what was measured also when this throws: Interrupted after a
// signal, tzmark::Error if the storage fails. begin: of the budget. progress receives a line for a person; may be
// empty.
void run_tune(const TuneOptions& options, std::chrono::steady_clock::time_point begin,
              const std::function<void(const std::string&)>& progress, TuneOutcome& outcome);

}  // namespace tzmark::bench
