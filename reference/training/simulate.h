// The command tzmark checkpoint simulate, shared by the program of one process and the one of MPI ranks.
#pragma once

#include <functional>
#include <string>

#include "training/ranks.h"
#include "training/simulation.h"

namespace tzmark::cli {

struct SimulateOptions : SimulationOptions {
  std::string json_file;
  bool mpi = false;
};

// Parses what follows "tzmark checkpoint" on the command line, calls run, and returns the exit status.
// who: goes before the text of an error, where several processes share stderr.
int run_simulate_command(int argc, char** argv, const std::function<void(const SimulateOptions&)>& run,
                         const std::string& who = "");

// Runs the training loop on these ranks. Rank 0 prints the results and writes the JSON.
void simulate(const SimulateOptions& options, Ranks& ranks);

}  // namespace tzmark::cli
