// Parses a command line, runs what it asks for, and says what went wrong by the exit status and on one line.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

namespace tzmark::cli {

// Both return the exit status: 0 fine, 1 the file fails, 2 wrong usage, 3 the environment failed, 4 not available on
// this machine. who: goes before the text of an error, where several processes share stderr.
int run_app(CLI::App& app, int argc, char** argv, const std::string& who = "");
// The same for an action that returns a status, or throws. Fills closed descriptors 0 to 2 first.
int run_guarded(const std::function<int()>& action, const std::string& who = "");

}  // namespace tzmark::cli
