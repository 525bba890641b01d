// The subjects of tzmark bench: one for each combination of its options.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_options.h"
#include "cli/rounds.h"
#include "subjects/ours.h"

namespace tzmark::bench {

// In an order that depends on the options alone. Throws kUsage for options that do not go together, and what is not
// available by its name.
std::vector<Measured> matrix_subjects(const BenchOptions& options, Workplace& place, SharedContent content);

// Returns the paths that were named; if none was, all available ones except variants. Throws kUsage for an unknown
// name, kUnavailable for a named one that this machine lacks.
std::vector<std::string> chosen_paths(const std::vector<std::string>& named);

// The tensors that they move. REQUIRES: a scale.
SharedContent matrix_content(const BenchOptions& options);

}  // namespace tzmark::bench
