// The subjects of tzmark bench: one for each combination of its options.
#pragma once

#include <vector>

#include "cli/bench_options.h"
#include "cli/rounds.h"
#include "subjects/ours.h"

namespace tzmark::bench {

// In an order that depends on the options alone. Throws kUsage for options that do not go together, and what is not
// available by its name.
std::vector<Measured> matrix_subjects(const BenchOptions& options, Workplace& place, SharedContent content);

// The tensors that they move.
SharedContent matrix_content(const BenchOptions& options);

}  // namespace tzmark::bench
