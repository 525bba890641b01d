// tzmark-checkpoint-simulate: runs tzmark checkpoint simulate in one process. tzmark starts it as its sibling.
#include "cli/sibling.h"
#include "training/simulate.h"
#include "tzmark/io.h"

int main(int argc, char** argv) {
  using namespace tzmark::cli;
  tzmark::remove_temporary_files_at_signals();
  tzmark::catch_bus_errors();
  return run_simulate_command(argc, argv, [argv](const SimulateOptions& options) {
    // Under MPI another program takes over, so that this one links no MPI.
    if (options.mpi) become_sibling("tzmark-checkpoint-mpi", argv);
    Ranks alone;
    simulate(options, alone);
  });
}
