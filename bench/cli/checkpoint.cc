// tzmark bench checkpoint: how long saving a checkpoint stalls the training loop, and what the background write costs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <memory>
#include <optional>

#include "checkpoints/checkpoint_document.h"
#include "cli/bench_commands.h"
#include "cli/bench_options.h"
#include "cli/run_program.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

int measure(MeasurementOptions options, const ResultOptions& result, const std::vector<std::string>& command) {
  // CLI::PositiveNumber accepts NaN.
  if (std::isnan(options.step_ms)) throw Error(ErrorCode::kUsage, "--step-ms is not a number");
  std::optional<ResultFile> file;
  if (!result.json_file.empty()) file.emplace(result.json_file);
  Measurement measurement;
  {
    const RoundProgress progress(result.progress);
    options.progress = progress.callback();
    measurement = measure_checkpoints(options);
  }
  const std::vector<CheckpointCheck> checks = check_checkpoints(measurement);
  print_lines(checkpoint_table(measurement, checks));
  // Without a round there is no result.
  if (file && !measurement.rounds.empty()) {
    file->commit(checkpoint_document(command, options, measurement, checks));
  }
  if (measurement.signal != 0) {
    say("note: interrupted after {} of {} rounds: only what was measured until then is here\n",
        measurement.rounds.size(), options.rounds);
    // The caller, a shell for example, learns by which signal the program ended. The files go first.
    static_cast<void>(::raise(measurement.signal));
  }
  const auto failed = [](const CheckpointCheck& check) { return check.verdict == CheckVerdict::kFail; };
  return std::ranges::any_of(checks, failed) ? 1 : 0;
}

}  // namespace

void add_checkpoint(CLI::App& bench, const std::vector<std::string>& command, int& status) {
  auto options = std::make_shared<MeasurementOptions>();
  auto result = std::make_shared<ResultOptions>();
  CLI::App& app = *bench.add_subcommand(
      "checkpoint", "Measure the checkpointer: stall, background write, memory, and interference with compute steps");
  add_directory(app, options->directory)->required();
  add_workload(app, options->workload, "Model, to which an optimizer is added");
  add_scale(app, options->state_bytes, "512MiB");
  app.add_option("--io", options->io_path, "I/O path for checkpoints and for the plain files they are compared with")
      ->capture_default_str();
  app.add_option("--threads", options->threads, "Threads that copy and write; 0 = one per core")->capture_default_str();
  app.add_option("--step-ms", options->step_ms, "Duration of a compute step")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--rounds", options->rounds, "Samples per measurement; an interval needs 6 or more")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_seed(app, options->seed);
  add_result(app, *result);
  app.callback([options, result, &command, &status] { status = measure(*options, *result, command); });
}

}  // namespace tzmark::bench
