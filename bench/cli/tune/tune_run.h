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

// A workload to predict, by NAME or NAME/SIZE ("mixtral-8x7b", "many-tiny/64MiB").
struct NamedWorkload {
  std::string text;
  std::uint64_t tensors = 0, bytes = 0;
};
// Throws kUsage for an unknown name or size.
NamedWorkload parse_prediction(const std::string& text);

}  // namespace tzmark::bench
