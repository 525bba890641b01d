// tzmark checkpoint simulate: a training loop that saves checkpoints, to be measured, killed and restarted.
#include "training/simulate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "cli/run_app.h"
#include "program/standard_streams.h"
#include "training/simulation_report.h"
#include "tzmark/io.h"

namespace tzmark::cli {
namespace {

// An hour.
constexpr double kStepMsMax = 3.6e6;

// CLI11 parses -1 as the largest unsigned number.
const CLI::Validator kNotNegative(
    [](std::string& text) { return text.starts_with('-') ? text + " is negative" : std::string(); }, "");

// Prints progress: for people, and for tests that kill this process and need to know how far it got.
SimulationEvents events_of_rank(std::uint32_t rank) {
  if (rank != 0) return {[](const SimulationResult&) {}, [](const SimulatedSave&) {}};
  return {[](const SimulationResult& result) {
            for (const std::string& name : result.removed) {
              tell(fmt::format("removed the remains of an interrupted save: {}", name));
            }
            for (const std::string& text : result.warnings) tell(text);
            if (result.resumed_from) {
              tell(fmt::format("resumed from the checkpoint of step {}", *result.resumed_from));
            } else {
              tell("no checkpoint found; starting at step 0");
            }
          },
          [](const SimulatedSave& save) {
            print(durable_line(save) + "\n");
            for (const std::string& text : save.report.warnings) tell(text);
          }};
}

}  // namespace

void simulate(const SimulateOptions& options, Ranks& ranks) {
  const bool is_first = ranks.rank() == 0;
  // Opened before the run, so that a bad path fails at once.
  std::optional<AtomicFile> file;
  if (is_first && !options.json_file.empty())
    with_file_name(options.json_file, [&] { file.emplace(options.json_file); });
  const SimulationResult result = run_simulation(options, ranks, events_of_rank(ranks.rank()));
  if (is_first) print(summary_line(result) + "\n");
  if (!file) return;
  const std::string text =
      to_json(options, result).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  with_file_name(options.json_file, [&] {
    file->file().write_at(0, std::as_bytes(std::span(text)));
    file->commit();
  });
}

int run_simulate_command(int argc, char** argv, const std::function<void(const SimulateOptions&)>& run,
                         const std::string& who) {
  SimulateOptions options;
  options.steps = 100;
  options.step_ms = 10;
  options.state_mib = 64;
  options.interval = 10;
  CLI::App app("Run a training loop that saves checkpoints; resumes from the newest one in the directory",
               "tzmark checkpoint simulate");
  const auto add = [&](const char* name, auto& value, const char* summary) {
    return app.add_option(name, value, summary)->capture_default_str();
  };
  const auto add_count = [&](const char* name, std::uint64_t& value, const char* summary) {
    return add(name, value, summary)->check(kNotNegative);
  };
  CheckpointOptions& checkpoints = options.checkpoints;
  app.add_option("DIR", options.directory, "Directory of the checkpoints; created if missing")->required();
  add_count("--steps", options.steps, "Step at which to end");
  add("--step-ms", options.step_ms, "Milliseconds of computing per step, besides updating the tensors")
      ->check(CLI::Range(0.0, kStepMsMax));
  add("--state-mib", options.state_mib, "Size of model and optimizer over all ranks, in MiB")
      ->check(CLI::Range(1, 1 << 24));
  add("--interval", options.interval, "Steps between checkpoints")->check(CLI::PositiveNumber);
  app.add_flag("--same-name", options.same_name, "Always save to DIR/last, replacing it, instead of to DIR/step-N");
  add_count("--keep-latest", checkpoints.retention.keep_latest, "Number of newest checkpoints to keep; 0 = all");
  add_count("--keep-every", checkpoints.retention.keep_every,
            "Also keep checkpoints whose step is a multiple of this; 0 = none");
  app.add_option("--from-step", options.from_step, "Go back to the checkpoint of this step, instead of the newest")
      ->check(kNotNegative);
  app.add_flag("--exclusive", checkpoints.exclusive, "Fail if another process saves to the directory");
  add_write_options(app, checkpoints);
  add_count("--memory-limit", checkpoints.memory_limit_bytes, "Memory for snapshot and I/O buffers; 0 = no limit")
      ->transform(CLI::AsSizeValue(false));
  add_count("--seed", options.seed, "Seed of the content");
  app.add_flag("--mpi", options.mpi, "Save one shard per rank of mpirun");
  // Not by a transformer over the enum: its help would print the values as characters.
  app.add_option_function<std::string>(
         "--strategy", [&](const std::string& name) { options.strategy = *strategy_from_name(name); },
         "Sharding strategy with --mpi")
      ->check(CLI::IsMember({"replicated", "zero", "tensor-parallel"}))
      ->default_str("zero");
  app.add_option("--json", options.json_file, "Write the measurements to this file; with --mpi, those of rank 0");
  app.callback([&] {
    // NaN passes a range check.
    if (std::isnan(options.step_ms)) throw Error(ErrorCode::kUsage, "--step-ms is not a number");
    run(options);
  });
  return run_app(app, argc, argv, who);
}

}  // namespace tzmark::cli
