// Tunes loads of one file on a server: which range size, number of requests and threads are fastest.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "cli/tune/tune_options.h"
#include "cli/tune/tune_outcome.h"

namespace tzmark::bench {

// As run_tune, where the directory of the options is the URL of a .tensors file that the server has. Throws TZE-AVL-001
// if the server cannot send parts of it, if it cannot be loaded, or if memory does not hold it.
void tune_served(const TuneOptions& options, std::chrono::steady_clock::time_point begin,
                 const std::function<void(const std::string&)>& progress, TuneOutcome& outcome);

}  // namespace tzmark::bench
