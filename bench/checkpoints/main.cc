// tzmark-checkpoint-bench: measures how long saving a checkpoint stalls the training loop, and what the background
// write costs.
//
// Exit status: 0 success, 1 a check failed, 2 wrong usage, 3 the environment failed, 4 not available on this machine.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <optional>

#include "checkpoints/checkpoint_document.h"
#include "cli/run_program.h"
#include "program/standard_streams.h"
#include "tzmark/error.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

int measure(MeasurementOptions options, const std::string& json_file, const std::vector<std::string>& command) {
  // CLI::PositiveNumber accepts NaN.
  if (std::isnan(options.step_ms)) throw Error(ErrorCode::kUsage, "--step-ms is not a number");
  std::optional<ResultFile> file;
  if (!json_file.empty()) file.emplace(json_file);
  Measurement measurement;
  {
    const RoundProgress progress(false);
    options.progress = progress.callback();
    measurement = measure_checkpoints(options);
  }
  const std::vector<CheckpointCheck> checks = check_checkpoints(measurement);
  print_lines(checkpoint_table(measurement, checks));
  if (file) file->commit(checkpoint_document(command, options, measurement, checks));
  const auto failed = [](const CheckpointCheck& check) { return check.verdict == CheckVerdict::kFail; };
  return std::ranges::any_of(checks, failed) ? 1 : 0;
}

int run(int argc, char** argv) {
  MeasurementOptions options;
  std::string json_file;
  CLI::App app("Measures the checkpointer: stall, background write, memory, and interference with compute steps.");
  app.set_version_flag("--version", version_text());
  app.add_option("--dir", options.directory,
                 "Directory on the storage to measure; a temporary subdirectory is created and removed")
      ->required()
      ->take_last();
  app.add_option("--workload", options.workload, "Model, as in tzmark bench; an optimizer is added")
      ->capture_default_str();
  app.add_option("--scale", options.state_bytes, "Maximum bytes of model and optimizer (default 512MiB)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--io", options.io_path, "I/O path for checkpoints and for the plain files they are compared with")
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads that copy and write; 0 = one per core")->capture_default_str();
  app.add_option("--step-ms", options.step_ms, "Duration of a compute step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", options.rounds, "Samples per measurement; an interval needs 6 or more")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "Seed of the order within rounds")->capture_default_str();
  app.add_option("--json", json_file, "Write the full result to this file");
  const std::vector<std::string> command(argv, argv + argc);
  return run_program(app, command, [&] { return measure(options, json_file, command); });
}

}  // namespace
}  // namespace tzmark::bench

int main(int argc, char** argv) {
  tzmark::remove_temporary_files_at_signals();
  return tzmark::bench::run(argc, argv);
}
