// Command lines: no value is empty, and unknown words are named.
//
// Thread-safety: for one thread, as CLI11 is.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tzmark::conformance {

// Parses the arguments. Returns false when that was all, since help was asked for and is printed. Throws UsageError,
// also for a value that is given and empty: a shell makes one of a variable that is not set.
bool parse(CLI::App& app, int argc, const char* const* argv);

}  // namespace tzmark::conformance
