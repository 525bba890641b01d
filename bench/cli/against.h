// tzmark bench --against OTHER_TZMARK: this build and another one in turn, until it is decided whether this one is
// slower.
//
// Exit status: 0 no line is slower; 1 a line is; 2 builds whose measuring core or lines differ, or a line that is not
// decided.
#pragma once

#include <string>
#include <vector>

#include "cli/bench_options.h"

namespace tzmark::bench {

void run_against(const BenchOptions& options, const MatrixRun& run, const std::vector<std::string>& command,
                 int& status);

}  // namespace tzmark::bench
