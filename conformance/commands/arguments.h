// Parses command lines: rejects empty values, and names unknown words.
//
// Thread-safety: for one thread, as CLI11 is.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tzmark::conformance {

// Parses the arguments. Returns false if it printed the help, and nothing is left to do. Throws UsageError, also for an
// empty value, which a shell makes of a variable that is not set.
bool parse(CLI::App& app, int argc, const char* const* argv);

}  // namespace tzmark::conformance
