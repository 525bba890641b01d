// The subcommands of tzmark-bench, each in a file of its own, and what they share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tzmark::bench {

// Each adds its subcommand to app, which runs as the subcommand's callback. command: the whole command line.
// status is what the program ends with if nothing is thrown.
void add_bench(CLI::App& app, const std::vector<std::string>& command, int& status);
void add_compare(CLI::App& app, int& status);

}  // namespace tzmark::bench
