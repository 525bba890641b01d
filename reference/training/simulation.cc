// The simulated training loop.
#include "training/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "checkpoint/names.h"
#include "os/directory.h"
#include "training/simulated_model.h"
#include "tzmark/computation.h"
#include "tzmark/error.h"

namespace tzmark::cli {
namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t nanoseconds(Clock::duration time) {
  return static_cast<std::uint64_t>(time / std::chrono::nanoseconds(1));
}

// Makes a directory in one that exists, unless it is there already.
void make_durable_directory(const std::string& name) {
  std::error_code failed;
  if (std::filesystem::is_directory(name, failed)) return;
  std::filesystem::path path = name;
  if (!path.has_filename()) path = path.parent_path();  // it ends in a slash
  const Directory parent = Directory::of(path);
  if (parent.make_directory(path.filename())) static_cast<void>(parent.sync());  // a save says so
}

class Simulation {
 public:
  Simulation(const SimulationOptions& options, Ranks& ranks, const SimulationEvents& events)
      : options_(options),
        ranks_(ranks),
        events_(events),
        computation_(options.step_ms),
        model_options_{.state_bytes = options.state_mib << 20,
                       .seed = options.seed,
                       .strategy = ranks.sharded() ? options.strategy : Sharding::Strategy::kReplicated,
                       .rank = ranks.rank(),
                       .world_size = ranks.size(),
                       .owned = std::nullopt},
        model_(model_options_),
        checkpointer_(options.checkpoints) {}

  SimulationResult run() {
    result_.rank = ranks_.rank();
    result_.world_size = ranks_.sharded() ? ranks_.size() : 0;
    std::uint64_t step = begin();
    result_.state_bytes = model_.data_bytes();
    checkpointer_.reserve(model_.memory_bytes());
    events_.started(result_);
    while (step < options_.steps) {
      const auto begin = Clock::now();
      model_.advance();
      computation_.run();
      ++step;
      result_.steps.push_back({begin, Clock::now()});
      if (step % options_.interval == 0) save(step);
    }
    finish_save();
    result_.snapshot_memory_bytes = checkpointer_.snapshot_memory_bytes();
    return std::move(result_);
  }

 private:
  // Cleans up, and resumes from the newest checkpoint. Rank 0 searches for it, so that all ranks see the same one.
  std::uint64_t begin() {
    std::string newest;
    if (ranks_.rank() == 0) {
      // A checkpoint is durable when all directories above it are.
      make_durable_directory(options_.directory);
      const std::string other = other_writer(options_.directory);
      if (other.empty()) {
        CleanedCheckpoints cleaned = clean_stale_checkpoints(options_.directory);
        result_.removed = std::move(cleaned.removed);
        result_.warnings = std::move(cleaned.kept);
      } else {
        result_.warnings.push_back(fmt::format("{}: not cleaned up: {}", options_.directory, other));
      }
      for (const CheckpointInfo& info : list_checkpoints(options_.directory)) {
        if (info.status == CheckpointInfo::Status::kUnreadable) {
          result_.warnings.push_back(fmt::format("passed over {}: {}", info.directory, info.problem));
        }
      }
      newest = start();
      run_id_ = checkpoint::new_save_id();
    }
    run_id_ = ranks_.from_first(run_id_);
    newest = ranks_.from_first(newest);
    if (newest.empty()) return 0;
    const LoadedCheckpoint loaded =
        ranks_.sharded() ? load_distributed_checkpoint(newest, ranks_.rank(), ranks_.size()) : load_checkpoint(newest);
    if (loaded.state.metadata != metadata()) {
      throw Error(
          ErrorCode::kUsage,
          fmt::format("{} is of a simulation with other options: use the same options or another directory", newest));
    }
    // reshard may have partitioned the weights differently, and this rank may own none.
    model_options_.owned.emplace();
    for (const CheckpointTensor& weight : loaded.model) model_options_.owned->push_back(weight.name);
    model_ = SimulatedModel(model_options_);
    model_.load(loaded, loaded.state.step);
    checkpointer_.continue_from(loaded.save_id);
    result_.resumed_from = loaded.state.step;
    return loaded.state.step;
  }

  // Returns the directory of the checkpoint from which to continue; empty without one.
  std::string start() const {
    if (!options_.from_step) {
      const auto newest = find_newest_checkpoint(options_.directory);
      return newest ? newest->directory : std::string();
    }
    for (const CheckpointInfo& info : list_checkpoint_candidates(options_.directory).checkpoints) {
      if (info.step == *options_.from_step) return info.directory;
    }
    throw Error(ErrorCode::kUsage,
                fmt::format("{}: there is no checkpoint of step {}", options_.directory, *options_.from_step));
  }

  std::map<std::string, std::string> metadata() const {
    return {{"seed", std::to_string(options_.seed)},
            {"state_mib", std::to_string(options_.state_mib)},
            {"strategy", ranks_.sharded() ? std::string(strategy_name(options_.strategy)) : "none"}};
  }

  TrainingState state(std::uint64_t step) const {
    return {.step = step,
            .epoch = step / 1000,
            .learning_rate = 1e-3 / static_cast<double>(1 + step),
            .metadata = metadata()};
  }

  void save(std::uint64_t step) {
    const std::uint64_t waited_ns = finish_save();
    const std::string name = options_.same_name ? "last" : fmt::format("step-{:08}", step);
    SimulatedSave save{.step = step, .directory = fmt::format("{}/{}", options_.directory, name)};
    if (ranks_.sharded()) {
      save.times = checkpointer_.save_distributed(
          save.directory, ranks_.rank(), ranks_.size(), model_.model(), model_.optimizer(), state(step),
          model_.sharding(), {fmt::format("{}-{}", run_id_, step), [this](bool mine) { return ranks_.agree(mine); }});
    } else {
      save.times = checkpointer_.save(save.directory, model_.model(), model_.optimizer(), state(step));
    }
    save.returned = Clock::now();
    save.times.wait_ns += waited_ns;
    result_.saves.push_back(std::move(save));
    in_flight_ = true;
  }

  // Waits here although save would, since only wait returns the report. Returns the time waited.
  std::uint64_t finish_save() {
    if (!in_flight_) return 0;
    const auto begin = Clock::now();
    in_flight_ = false;
    result_.saves.back().report = checkpointer_.wait();
    const std::uint64_t waited_ns = nanoseconds(Clock::now() - begin);
    events_.durable(result_.saves.back());
    return waited_ns;
  }

  const SimulationOptions& options_;
  Ranks& ranks_;
  const SimulationEvents& events_;
  Computation computation_;
  SimulatedModelOptions model_options_;
  SimulatedModel model_;
  AsyncCheckpointer checkpointer_;
  std::string run_id_;
  bool in_flight_ = false;
  SimulationResult result_;
};

}  // namespace

std::string_view strategy_name(Sharding::Strategy strategy) {
  switch (strategy) {
    case Sharding::Strategy::kReplicated:
      return "replicated";
    case Sharding::Strategy::kZeroPartitioned:
      return "zero";
    case Sharding::Strategy::kTensorParallel:
      return "tensor-parallel";
  }
  return {};
}

std::optional<Sharding::Strategy> strategy_from_name(std::string_view name) {
  for (const auto strategy :
       {Sharding::Strategy::kReplicated, Sharding::Strategy::kZeroPartitioned, Sharding::Strategy::kTensorParallel}) {
    if (name == strategy_name(strategy)) return strategy;
  }
  return std::nullopt;
}

SimulationResult run_simulation(const SimulationOptions& options, Ranks& ranks, const SimulationEvents& events) {
  return Simulation(options, ranks, events).run();
}

}  // namespace tzmark::cli
