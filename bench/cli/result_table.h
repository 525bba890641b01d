// The table of a run in rounds, on standard output.
#pragma once

#include <vector>

#include "cli/rounds.h"

namespace tzmark::bench {

// One line for each result, with its bound or why it is missing, and one for each ceiling.
void print_results(const std::vector<Measured>& measured);

}  // namespace tzmark::bench
