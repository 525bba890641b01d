// tzmark bench check: the performance checks.
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/bench_commands.h"
#include "cli/bench_options.h"
#include "cli/bench_output.h"
#include "cli/check.h"
#include "cli/matrix.h"
#include "harness/cgroup.h"
#include "harness/interruption.h"
#include "tzmark/digest.h"
#include "tzmark/threads.h"

namespace tzmark::bench {
namespace {

struct CheckCommand {
  std::string directory;
  ResultOptions result;
  CheckOptions checks{.scale_bytes = 0};
  std::uint64_t budget_s = 600;
};

void run(CheckCommand given, const std::vector<std::string>& command, int& status) {
  CheckOptions& checks = given.checks;
  const std::size_t tensors = large_tensors_for(core_count(), sha256_lanes());
  // The checks read files of eight times as much, and hold several sets of tensors.
  const DataSize size =
      data_size(checks.scale_bytes, tensors * kLargeTensorBytes, {.needed = 10, .comfortable = 26}, cgroup_limits());
  checks.scale_bytes = size.bytes;
  checks.large_tensors =
      std::clamp(static_cast<std::size_t>(size.bytes / kLargeTensorBytes), kLargeTensorsMin, tensors);
  BenchOutput output(given.result, command, given.directory, size);
  output.note_small_ceilings(0);
  if (!checks.io.empty()) checks.io = chosen_paths(checks.io);
  for (const std::string& io : checks.io) {
    if (!path_traits(io).moves_device_memory) continue;
    throw Error(ErrorCode::kUsage, fmt::format("--io: raw, hash and bytes are of host memory; gpu measures {}", io));
  }
  checks.contests.budget = std::chrono::seconds(given.budget_s);
  checks.contests.stop = [] { return Interruption::number() != 0; };
  std::vector<RatioCheck> all;
  MachineConditions conditions;
  {
    const RoundProgress progress(given.result.progress);
    checks.contests.progress = progress.callback();
    Workplace place(given.directory);
    const Interruption interruption;
    conditions = run_checks(place, checks, [&](const auto& workloads, const auto& measured, const auto& concluded) {
      for (const Workload& workload : workloads) output.document.add_workload(workload);
      output.add(measured);
      output.document.add(concluded);
      all.insert(all.end(), concluded.begin(), concluded.end());
    });
    output.signal = Interruption::number();
  }
  if (output.signal != 0) {
    output.document.add_interruption("interrupted: only what was decided until then is here");
  }
  output.document.add(conditions);
  std::ranges::stable_sort(all, {}, &RatioCheck::item);
  if (!output.google) {
    say("{}", conditions_text(conditions));
    say("{}", check_table(all));
  }
  const auto failed = [](const RatioCheck& check) { return check.verdict == BoundVerdict::kFail; };
  if (std::ranges::any_of(all, failed)) status = 1;
  output.finish(static_cast<unsigned>(checks.contests.laps_max), checks.contests.seed);
}

}  // namespace

void add_check(CLI::App& bench, const std::vector<std::string>& command, int& status) {
  auto options = std::make_shared<CheckCommand>();
  CheckOptions& checks = options->checks;
  CLI::App& check = *bench.add_subcommand("check", "Run the performance checks; exit 1 if one fails");
  check.add_option("NAMES", checks.names, "Checks to run (default: all)")->check(CLI::IsMember(check_names()));
  add_directory(check, options->directory)->required();
  add_workload(check, checks.workload, "Model of python and safetensors (default: gpt2, llama-3.1-8b and one-huge)");
  add_scale(check, checks.scale_bytes,
            "4MiB for each tensor that the cores hash at once, at least 128MiB; half is written");
  add_io(check, checks.io, "six, four and all for raw, hash and bytes");
  add_gpu_set(check, checks.gpu_set_bytes);
  check.add_option("--rounds", checks.contests.laps_max, "Most laps of a check, each of one sample per side")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1'000'000}))
      ->capture_default_str();
  add_seed(check, checks.contests.seed);
  add_budget(check, options->budget_s);
  add_result(check, options->result);
  add_format(check, options->result.format);
  check.callback([options, &command, &status] { run(*options, command, status); });
}

}  // namespace tzmark::bench
