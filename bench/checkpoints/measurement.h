// What is measured of the checkpointer, in rounds: each once a round, in an order that is drawn anew each time.
//
// Thread-safety: for one thread at a time. Errors: what the checkpointer throws; TZE-ENV-005 if what was saved does not
// load as what it was.
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
  std::function<void(const std::string& what)> progress;  // for people; may be empty
};

// Of steps of computing: alone, and beside a save that is written.
struct Interference {
  double idle_ns = 0;  // means; 0 where no step came to its end
  double draining_ns = 0;
};

struct CheckpointRound {
  SaveTimes times;
  WriteReport report;
  std::uint64_t memcpy_ns = 0;        // of the same bytes, by as many threads
  std::uint64_t plain_write_ns = 0;   // of the same files by the plain writer, until they are durable
  std::uint64_t anonymous_bytes = 0;  // at most, of a checkpointer over two saves
  Interference one_thread, all_cores;
};

struct Measurement {
  std::uint64_t state_bytes = 0;  // of the tensors
  std::size_t tensors = 0;
  std::string io_path;   // by which files are written
  unsigned threads = 0;  // that copy
  std::vector<CheckpointRound> rounds;
};

// Verifies first: saves, loads and compares.
Measurement measure_checkpoints(const MeasurementOptions& options);

}  // namespace tzmark::bench
