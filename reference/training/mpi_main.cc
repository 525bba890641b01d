// tzmark-checkpoint-mpi: runs tzmark checkpoint simulate --mpi. It is a separate program, so that no other links MPI.
//
// Exit status: that of tzmark. A rank that fails aborts the others, which would wait for it forever.
#include <fmt/format.h>
#include <mpi.h>

#include "cli/run_app.h"
#include "training/simulate.h"
#include "tzmark/error.h"
#include "tzmark/io.h"

namespace tzmark::cli {
namespace {

// MPI aborts the program if one of its calls fails, so none is checked.
class MpiRanks final : public Ranks {
 public:
  MpiRanks() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    // Background threads communicate while the loop does.
    MPI_Comm_dup(MPI_COMM_WORLD, &background_);
  }
  ~MpiRanks() override { MPI_Comm_free(&background_); }

  bool sharded() const override { return true; }
  std::uint32_t rank() const override { return static_cast<std::uint32_t>(rank_); }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(size_); }

  std::string from_first(std::string text) override {
    auto length = static_cast<unsigned long long>(text.size());
    MPI_Bcast(&length, 1, MPI_UNSIGNED_LONG_LONG, 0, MPI_COMM_WORLD);
    text.resize(length);
    MPI_Bcast(text.data(), static_cast<int>(length), MPI_CHAR, 0, MPI_COMM_WORLD);
    return text;
  }

  bool agree(bool mine) override {
    const int own = mine ? 1 : 0;
    int all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_LAND, background_);
    return all != 0;
  }

 private:
  int rank_ = 0;
  int size_ = 1;
  MPI_Comm background_ = MPI_COMM_NULL;
};

int run(int argc, char** argv, int thread_level) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto simulate_on_ranks = [thread_level](const SimulateOptions& options) {
    if (thread_level < MPI_THREAD_MULTIPLE) {
      throw Error(ErrorCode::kUnavailable, "this MPI lacks MPI_THREAD_MULTIPLE: only one thread may call it");
    }
    MpiRanks ranks;
    simulate(options, ranks);
  };
  return run_simulate_command(argc, argv, simulate_on_ranks, fmt::format("rank {}", rank));
}

}  // namespace
}  // namespace tzmark::cli

int main(int argc, char** argv) {
  // Fills closed descriptors 0 to 2, before MPI opens any.
  if (const int failed = tzmark::cli::run_guarded([] { return 0; }); failed != 0) return failed;
  tzmark::remove_temporary_files_at_signals();
  tzmark::catch_bus_errors();
  int thread_level = MPI_THREAD_SINGLE;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &thread_level);
  const int status = tzmark::cli::run(argc, argv, thread_level);
  if (status != 0) MPI_Abort(MPI_COMM_WORLD, status);
  MPI_Finalize();
  return status;
}
