// tzmark checkpoint simulate: a training loop that saves checkpoints, to be measured, killed and started again.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/checkpoint_commands.h"
#include "cli/commands.h"
#include "cli/simulation_report.h"
#include "program/standard_streams.h"
#include "tzmark/io.h"

namespace tzmark::cli {
namespace {

// An hour.
constexpr double kStepMsMax = 3.6e6;

// CLI11 takes -1 for the largest unsigned number.
const CLI::Validator kNotNegative(
    [](std::string& text) { return text.starts_with('-') ? text + " is negative" : std::string(); }, "");

// Lines for people, and for whoever kills this process and wants to know how far it was.
SimulationEvents events_of_rank(std::uint32_t rank) {
  if (rank != 0) return {[](const SimulationResult&) {}, [](const SimulatedSave&) {}};
  return {[](const SimulationResult& result) {
            for (const std::string& name : result.removed) {
              warn(fmt::format("removed what a save that died had left: {}", name));
            }
            for (const std::string& text : result.warnings) warn(text);
            if (result.resumed_from) {
              tell(fmt::format("resumed from the checkpoint of step {}", *result.resumed_from));
            } else {
              tell("there is no checkpoint; this begins at step 0");
            }
          },
          [](const SimulatedSave& save) {
            print(durable_line(save) + "\n");
            for (const std::string& text : save.report.warnings) warn(text);
          }};
}

}  // namespace

void simulate(const SimulateOptions& options, Ranks& ranks) {
  const bool is_first = ranks.rank() == 0;
  // Opened first: nobody wants to hear at the end that it cannot be written.
  std::optional<AtomicFile> file;
  if (is_first && !options.json_file.empty()) file.emplace(options.json_file);
  const SimulationResult result = run_simulation(options, ranks, events_of_rank(ranks.rank()));
  if (is_first) print(summary_line(result) + "\n");
  if (!file) return;
  const std::string text =
      to_json(options, result).dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  file->file().write_at(0, std::as_bytes(std::span(text)));
  file->commit();
}

void add_checkpoint_simulate(CLI::App& group, std::function<void(const SimulateOptions&)> run) {
  auto options = std::make_shared<SimulateOptions>();
  options->steps = 100;
  options->step_ms = 10;
  options->state_mib = 64;
  options->interval = 10;
  CLI::App* command = group.add_subcommand(
      "simulate", "Run a training loop that saves checkpoints; goes on from the newest one in the directory");
  command->add_option("DIR", options->directory, "Where the checkpoints go; made if need be")->required();
  command->add_option("--steps", options->steps, "The step to end at")->check(kNotNegative)->capture_default_str();
  command->add_option("--step-ms", options->step_ms, "Computing in a step, beside the change of the tensors")
      ->check(CLI::Range(0.0, kStepMsMax))
      ->capture_default_str();
  command->add_option("--state-mib", options->state_mib, "Model and optimizer of all ranks together, in MiB")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  command->add_option("--interval", options->interval, "Steps from one checkpoint to the next")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--same-name", options->same_name,
                    "Save to DIR/last always, in place of the checkpoint before, and not to DIR/step-N");
  command
      ->add_option("--keep-latest", options->checkpoints.retention.keep_latest,
                   "How many checkpoints stay; 0 is all of them")
      ->check(kNotNegative)
      ->capture_default_str();
  command
      ->add_option("--keep-every", options->checkpoints.retention.keep_every,
                   "Those whose step is a multiple of this stay, too; 0 is none")
      ->check(kNotNegative)
      ->capture_default_str();
  add_write_options(*command, options->checkpoints);
  command
      ->add_option("--memory-limit", options->checkpoints.memory_limit_bytes,
                   "For snapshot and I/O buffers together; 0 is no limit")
      ->check(kNotNegative)
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the content")->check(kNotNegative)->capture_default_str();
  command->add_flag("--mpi", options->mpi, "Each rank of mpirun saves its shard");
  // Not by a transformer over the enum: its help would print the values as characters.
  command
      ->add_option_function<std::string>(
          "--strategy", [options](const std::string& name) { options->strategy = *strategy_from_name(name); },
          "With --mpi, how")
      ->check(CLI::IsMember({"replicated", "zero", "tensor-parallel"}))
      ->default_str("zero");
  command->add_option("--json", options->json_file, "Write what was measured to this file; of rank 0, with --mpi");
  command->callback([options, run = std::move(run)] {
    // Not a number passes for one in the range.
    if (std::isnan(options->step_ms)) throw Error(ErrorCode::kUsage, "--step-ms is not a number");
    run(*options);
  });
}

}  // namespace tzmark::cli
