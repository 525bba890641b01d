// Measures the checkpointer in rounds: each phase once per round, in random order.
//
// For one thread at a time. Errors: those of the checkpointer; TZE-ENV-005 if the loaded state differs from the saved.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tzmark/checkpoint.h"

namespace tzmark::bench {

struct MeasurementOptions {
  std::string directory;
  std::string workload = "llama-3.1-8b";
  std::uint64_t state_bytes = std::uint64_t{512} << 20;
  std::string io_path = "auto";
  unsigned threads = 0;
  double step_ms = 2;
  unsigned rounds = 9;
  std::uint64_t seed = 1;
  std::function<void(const std::string& what)> progress;  // for a person to read; may be empty
};

// Duration of compute steps without and with a concurrent background write.
struct Interference {
  double idle_ns = 0;  // means; 0 if no step was completed
  double draining_ns = 0;
};

struct CheckpointRound {
  SaveTimes times;
  WriteReport report;
  std::uint64_t memcpy_ns = 0;        // of the same bytes, on as many threads
  std::uint64_t plain_write_ns = 0;   // of the same files by the plain writer, fsync included
  std::uint64_t anonymous_bytes = 0;  // peak of a checkpointer over two saves
  Interference one_thread, all_cores;
};

struct Measurement {
  std::uint64_t state_bytes = 0;  // of the tensors
  std::size_t tensors = 0;
  std::string io_path;   // for writing
  unsigned threads = 0;  // for copying
  std::vector<CheckpointRound> rounds;
  int signal = 0;  // that ended the measurement before its last round
};

// Verifies a save by loading and comparing it, then measures until the first Ctrl-C, which ends the round it is in.
Measurement measure_checkpoints(const MeasurementOptions& options);

}  // namespace tzmark::bench
