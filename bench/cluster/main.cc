// tzmark-bench-cluster: runs tzmark bench cluster on the ranks of an MPI program. It is a separate program, so that no
// other links MPI.
//
// Exit status: that of tzmark bench. A rank that fails outside of a run aborts the others, which would wait for it.
#include <fcntl.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/run_program.h"
#include "cluster/command.h"
#include "cluster/mpi_ranks.h"
#include "program/standard_streams.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

// What rank 0 says of the command line, the others say as well.
void say_nothing() {
  const int nothing = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, descriptor);
  ::close(nothing);
}

int run(int argc, char** argv, int thread_level) {
  MpiRanks ranks;
  CLI::App app("Measures with the ranks of an MPI program.", "tzmark");
  app.set_version_flag("--version", version_text());
  app.require_subcommand(1);
  CLI::App& bench = *app.add_subcommand("bench", "Measure I/O paths");
  bench.require_subcommand(1);
  const int errors = ::dup(STDERR_FILENO);
  std::vector<std::string> command(argv, argv + argc);
  // tzmark passes the name of its subcommand as argv[0].
  if (command.front() == "bench") command.insert(command.begin(), "");
  command.front() = "tzmark";
  if (ranks.rank() != 0) say_nothing();
  add_cluster(bench, command, ranks, [&] {
    if (thread_level < MPI_THREAD_SERIALIZED) {
      throw Error(ErrorCode::kUnavailable, "this MPI lacks MPI_THREAD_SERIALIZED: only its first thread may call it");
    }
    // What goes wrong from here on is of one rank.
    ::dup2(errors, STDERR_FILENO);
  });
  const int status = run_program(app, command, [] { return 0; });
  ::close(errors);
  return status;
}

}  // namespace
}  // namespace tzmark::bench

int main(int argc, char** argv) {
  // Fills closed descriptors 0 to 2, before MPI opens any.
  tzmark::open_standard_streams();
  tzmark::remove_temporary_files_at_signals();
  tzmark::catch_bus_errors();
  int thread_level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &thread_level);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const int status = tzmark::bench::run(argc, argv, thread_level);
  // Of the command line all ranks think the same, and of the others rank 0 has taken leave.
  if (status != 0 && rank != 0 && status != static_cast<int>(tzmark::ErrorClass::kUsage)) {
    MPI_Abort(MPI_COMM_WORLD, status);
  }
  MPI_Finalize();
  return status;
}
