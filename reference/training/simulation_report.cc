// The results of a simulated training run.
#include "training/simulation_report.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/utsname.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <thread>

#include "cli/commands.h"
#include "tzmark/version.h"

namespace tzmark::cli {
namespace {

using nlohmann::json;
using TimePoint = std::chrono::steady_clock::time_point;

StepSummary summarised(std::vector<std::uint64_t> times_ns) {
  StepSummary summary{.count = times_ns.size()};
  if (times_ns.empty()) return summary;
  summary.mean_ns = std::accumulate(times_ns.begin(), times_ns.end(), std::uint64_t{0}) / times_ns.size();
  std::ranges::sort(times_ns);
  summary.median_ns = times_ns[times_ns.size() / 2];
  summary.p99_ns = times_ns[(times_ns.size() * 99 + 99) / 100 - 1];
  return summary;
}

TimePoint end_of(const SimulatedSave& save) {
  return save.returned +
         std::chrono::nanoseconds(save.report.drain_ns + save.report.commit_ns + save.report.retention_ns);
}

json to_json(const StepSummary& summary) {
  return {{"count", summary.count},
          {"mean_ns", summary.mean_ns},
          {"median_ns", summary.median_ns},
          {"p99_ns", summary.p99_ns}};
}

json to_json(const SimulatedSave& save) {
  return {{"step", save.step},
          {"directory", save.directory},
          {"wait_ns", save.times.wait_ns},
          {"copy_ns", save.times.copy_ns},
          {"submit_ns", save.times.submit_ns},
          {"stall_ns", save.stall_ns()},
          {"snapshot_bytes", save.report.snapshot_bytes},
          {"drain_ns", save.report.drain_ns},
          {"commit_ns", save.report.commit_ns},
          {"retention_ns", save.report.retention_ns},
          {"file_bytes", save.report.file_bytes},
          {"names_durable", save.report.names_durable},
          {"commit", commit_method_name(save.report.commit)}};
}

json machine_facts() {
  utsname system{};
  ::uname(&system);
  return {{"kernel", system.release},
          {"architecture", system.machine},
          {"cores", std::max(1U, std::thread::hardware_concurrency())}};
}

// Returns the peak since this process began, as the kernel counts it.
std::uint64_t peak_resident_bytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) << 10;
}

double ms(std::uint64_t ns) { return static_cast<double>(ns) / 1e6; }

}  // namespace

StepTimes step_times(const SimulationResult& result) {
  std::vector<std::uint64_t> all, draining, idle;
  auto save = result.saves.begin();
  for (const SimulatedStep& step : result.steps) {
    const auto elapsed_ns = static_cast<std::uint64_t>((step.end - step.begin) / std::chrono::nanoseconds(1));
    all.push_back(elapsed_ns);
    // The loop waits for a save before it starts the next, so at most one overlaps a step.
    while (save != result.saves.end() && end_of(*save) <= step.begin) ++save;
    if (save == result.saves.end() || step.end <= save->returned) {
      idle.push_back(elapsed_ns);
    } else if (save->returned <= step.begin && step.end <= end_of(*save)) {
      draining.push_back(elapsed_ns);
    }
  }
  StepTimes times{summarised(std::move(all)), summarised(std::move(draining)), summarised(std::move(idle)), {}};
  if (times.draining.count > 0 && times.idle.mean_ns > 0) {
    times.slow_down = static_cast<double>(times.draining.mean_ns) / static_cast<double>(times.idle.mean_ns);
  }
  return times;
}

std::string durable_line(const SimulatedSave& save) {
  return fmt::format(
      "{}: durable, {}; stalled {:.1f} ms (wait {:.1f}, copy {:.1f}, submit {:.1f}), drained in {:.1f} ms, "
      "committed in {:.1f} ms",
      printable(save.directory), human_bytes(save.report.file_bytes), ms(save.stall_ns()), ms(save.times.wait_ns),
      ms(save.times.copy_ns), ms(save.times.submit_ns), ms(save.report.drain_ns), ms(save.report.commit_ns));
}

std::string summary_line(const SimulationResult& result) {
  const StepTimes times = step_times(result);
  std::string text = fmt::format("{} steps, {:.1f} ms on average", times.all.count, ms(times.all.mean_ns));
  if (times.slow_down) {
    text += fmt::format("; {:.1f} ms during a save, {:.1f} ms otherwise: {:.2f} times as long",
                        ms(times.draining.mean_ns), ms(times.idle.mean_ns), *times.slow_down);
  }
  return text;
}

json to_json(const SimulationOptions& options, const SimulationResult& result) {
  const StepTimes times = step_times(result);
  json saves = json::array();
  for (const SimulatedSave& save : result.saves) saves.push_back(to_json(save));
  return {{"schema_version", 1},
          {"kind", "checkpoint-simulate"},
          {"tool", {{"name", "tzmark"}, {"version", version()}, {"commit", commit()}}},
          {"machine", machine_facts()},
          {"options",
           {{"directory", options.directory},
            {"steps", options.steps},
            {"step_ms", options.step_ms},
            {"state_mib", options.state_mib},
            {"interval", options.interval},
            {"seed", options.seed},
            {"io", options.checkpoints.io_path},
            {"threads", options.checkpoints.threads},
            {"memory_limit_bytes", options.checkpoints.memory_limit_bytes}}},
          {"rank", result.rank},
          {"world_size", result.world_size},
          {"strategy", result.world_size == 0 ? json(nullptr) : json(strategy_name(options.strategy))},
          {"removed", result.removed},
          {"resumed_from", result.resumed_from ? json(*result.resumed_from) : json(nullptr)},
          {"state_bytes", result.state_bytes},
          {"snapshot_memory_bytes", result.snapshot_memory_bytes},
          {"peak_resident_bytes", peak_resident_bytes()},
          {"steps",
           {{"all", to_json(times.all)},
            {"draining", to_json(times.draining)},
            {"idle", to_json(times.idle)},
            {"slow_down", times.slow_down ? json(*times.slow_down) : json(nullptr)}}},
          {"saves", std::move(saves)}};
}

}  // namespace tzmark::cli
