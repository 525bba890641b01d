// A simulated training loop: each step changes every tensor and takes time, and every few steps it saves a checkpoint.
//
// Thread-safety: one thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "training/ranks.h"
#include "tzmark/checkpoint.h"

namespace tzmark::cli {

struct SimulationOptions {
  std::string directory;  // of the checkpoints; created if its parent exists
  std::uint64_t steps = 0;
  double step_ms = 0;  // of computing in one thread, besides updating the tensors
  std::uint64_t state_mib = 0;
  std::uint64_t interval = 0;              // steps
  bool same_name = false;                  // each checkpoint replaces the one before
  std::optional<std::uint64_t> from_step;  // go back to its checkpoint; none: resume from the newest
  std::uint64_t seed = 0;
  Sharding::Strategy strategy = Sharding::Strategy::kZeroPartitioned;  // of sharded ones
  CheckpointOptions checkpoints;
};

struct SimulatedStep {
  std::chrono::steady_clock::time_point begin, end;
};

struct SimulatedSave {
  std::uint64_t step = 0;
  std::string directory;
  SaveTimes times = {};  // wait_ns is all of the waiting
  WriteReport report = {};
  std::chrono::steady_clock::time_point returned = {};  // from then on, steps run while it is written

  std::uint64_t stall_ns() const { return times.wait_ns + times.copy_ns + times.submit_ns; }
};

struct SimulationResult {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;               // 0: not sharded
  std::vector<std::string> removed;           // remains of interrupted saves
  std::vector<std::string> warnings;          // what was not removed, or was passed over
  std::optional<std::uint64_t> resumed_from;  // step
  std::uint64_t state_bytes = 0;              // of this rank
  std::uint64_t snapshot_memory_bytes = 0;
  std::vector<SimulatedStep> steps;
  std::vector<SimulatedSave> saves;
};

// Callbacks that report progress, from the thread of the loop.
struct SimulationEvents {
  std::function<void(const SimulationResult&)> started;
  std::function<void(const SimulatedSave&)> durable;
};

// Resumes from the newest checkpoint in the directory, or starts at step 0. Returns when all saves are durable.
// Throws kUsage if the directory has checkpoints of another simulation.
SimulationResult run_simulation(const SimulationOptions& options, Ranks& ranks, const SimulationEvents& events);

std::optional<Sharding::Strategy> strategy_from_name(std::string_view name);
std::string_view strategy_name(Sharding::Strategy strategy);  // "replicated", "zero", "tensor-parallel"

}  // namespace tzmark::cli
