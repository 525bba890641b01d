// tzmark bench cluster, as every rank of the program runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "cluster/ranks.h"

namespace tzmark::bench {

// Adds the subcommand to bench, whose callback measures with the other ranks. Rank 0 alone prints and writes a result.
// The callback throws what went wrong: wrong usage on all ranks, and what fails later on rank 0. begin: called between
// the two; what it throws, it throws on all ranks.
void add_cluster(CLI::App& bench, const std::vector<std::string>& command, Ranks& ranks,
                 const std::function<void()>& begin);

}  // namespace tzmark::bench
