// Parses a command line, runs the command, and reports errors on one line of stderr and by the exit status.
#pragma once

#include <functional>
#include <string>

namespace CLI {
class App;
}

namespace tzmark::cli {

// Both return the exit status: 0 success, 1 the file fails, 2 wrong usage, 3 the environment failed, 4 not available on
// this machine. who: prefix of an error's text, where several processes share stderr.
int run_app(CLI::App& app, int argc, char** argv, const std::string& who = "");
// Runs an action that returns a status or throws, after filling closed descriptors 0 to 2.
int run_guarded(const std::function<int()>& action, const std::string& who = "");

}  // namespace tzmark::cli
