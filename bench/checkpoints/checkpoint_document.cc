// Checks and output of the checkpoint benchmark; see checkpoint_document.h.
#include "checkpoints/checkpoint_document.h"

#include <fmt/format.h>

#include <functional>

#include "harness/machine.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

std::vector<double> of_rounds(const Measurement& measurement,
                              const std::function<double(const CheckpointRound&)>& value) {
  std::vector<double> values;
  for (const CheckpointRound& round : measurement.rounds) values.push_back(value(round));
  return values;
}

double divided(std::uint64_t a, std::uint64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

// Uses the rounds in which steps were completed both with and without a save.
Interval slow_down(const Measurement& measurement, Interference CheckpointRound::*of) {
  std::vector<double> ratios;
  for (const CheckpointRound& round : measurement.rounds) {
    const Interference& steps = round.*of;
    if (steps.idle_ns > 0 && steps.draining_ns > 0) ratios.push_back(steps.draining_ns / steps.idle_ns);
  }
  return median_interval(std::move(ratios));
}

json to_json(const Interference& steps) { return {{"idle_ns", steps.idle_ns}, {"draining_ns", steps.draining_ns}}; }

json to_json(const CheckpointRound& round) {
  return {{"wait_ns", round.times.wait_ns},          {"copy_ns", round.times.copy_ns},
          {"submit_ns", round.times.submit_ns},      {"snapshot_bytes", round.report.snapshot_bytes},
          {"file_bytes", round.report.file_bytes},   {"drain_ns", round.report.drain_ns},
          {"commit_ns", round.report.commit_ns},     {"memcpy_ns", round.memcpy_ns},
          {"plain_write_ns", round.plain_write_ns},  {"anonymous_bytes", round.anonymous_bytes},
          {"one_thread", to_json(round.one_thread)}, {"all_cores", to_json(round.all_cores)}};
}

json to_json(const CheckpointCheck& check) {
  return {{"name", check.name},
          {"what", check.what},
          {"ratio", to_json(check.ratio)},
          {"required", check.required ? json(*check.required) : json(nullptr)},
          {"at_most", check.at_most},
          {"verdict", check.required ? json(verdict_name(check.verdict)) : json(nullptr)}};
}

std::string interval_text(const Interval& interval, double unit) {
  if (!interval.low) return "none";
  return fmt::format("{:.2f} - {:.2f}", *interval.low / unit, *interval.high / unit);
}

}  // namespace

std::vector<CheckpointCheck> check_checkpoints(const Measurement& measurement) {
  const auto ratio = [&](auto&& value) { return median_interval(of_rounds(measurement, value)); };
  std::vector<CheckpointCheck> checks = {
      {"copy", "memcpy with as many threads, over the copy of a save",
       ratio([](const CheckpointRound& r) { return divided(r.memcpy_ns, r.times.copy_ns); }), 0.9},
      {"drain", "the plain writer with fsync, over the background write until it is durable",
       ratio([](const CheckpointRound& r) { return divided(r.plain_write_ns, r.report.drain_ns); }), 0.9},
      {"memory", "peak of host memory, over the snapshot",
       ratio([](const CheckpointRound& r) { return divided(r.anonymous_bytes, r.report.snapshot_bytes); }), 1.1, true},
      {"step, one thread", "during a save, over alone", slow_down(measurement, &CheckpointRound::one_thread), {}},
      {"step, all cores", "during a save, over alone", slow_down(measurement, &CheckpointRound::all_cores), {}},
  };
  for (CheckpointCheck& check : checks) {
    if (check.required) check.verdict = judge(check.ratio, *check.required, check.at_most);
  }
  return checks;
}

json checkpoint_document(const std::vector<std::string>& command, const MeasurementOptions& options,
                         const Measurement& measurement, const std::vector<CheckpointCheck>& checks) {
  json rounds = json::array(), results = json::array();
  for (const CheckpointRound& round : measurement.rounds) rounds.push_back(to_json(round));
  for (const CheckpointCheck& check : checks) results.push_back(to_json(check));
  return {{"schema_version", 1},
          {"kind", "checkpoint-bench"},
          {"tool", {{"name", "tzmark"}, {"version", version()}, {"commit", commit()}}},
          {"command", command},
          {"machine", machine_facts(options.directory)},
          {"workload", options.workload},
          {"tensors", measurement.tensors},
          {"state_bytes", measurement.state_bytes},
          {"io", {{"requested", options.io_path}, {"actual", measurement.io_path}}},
          {"threads", measurement.threads},
          {"step_ms", options.step_ms},
          {"seed", options.seed},
          {"is_complete", measurement.signal == 0},
          {"rounds", std::move(rounds)},
          {"checks", std::move(results)}};
}

std::string checkpoint_table(const Measurement& measurement, const std::vector<CheckpointCheck>& checks) {
  std::string text = fmt::format("{} tensors, {:.1f} MiB, by {}\n{:18} {:>10} {:>20}\n", measurement.tensors,
                                 static_cast<double>(measurement.state_bytes) / (1 << 20), measurement.io_path, "what",
                                 "median", "95 % interval");
  const auto add_time = [&](const char* name, auto&& value) {
    const Interval time = median_interval(of_rounds(measurement, value));
    text += fmt::format("{:18} {:>7.2f} ms {:>17} ms\n", name, time.median / 1e6, interval_text(time, 1e6));
  };
  using Round = CheckpointRound;
  add_time("stall: wait", [](const Round& r) { return static_cast<double>(r.times.wait_ns); });
  add_time("stall: copy", [](const Round& r) { return static_cast<double>(r.times.copy_ns); });
  add_time("stall: submit", [](const Round& r) { return static_cast<double>(r.times.submit_ns); });
  add_time("drain", [](const Round& r) { return static_cast<double>(r.report.drain_ns); });
  add_time("commit", [](const Round& r) { return static_cast<double>(r.report.commit_ns); });
  add_time("memcpy", [](const Round& r) { return static_cast<double>(r.memcpy_ns); });
  add_time("plain writer", [](const Round& r) { return static_cast<double>(r.plain_write_ns); });
  text +=
      fmt::format("{:18} {:>10} {:>20} {:>9}  {:12} {}\n", "", "ratio", "95 % interval", "required", "verdict", "of");
  for (const CheckpointCheck& check : checks) {
    const std::string required =
        check.required ? fmt::format("{} {:.2f}", check.at_most ? "<=" : ">=", *check.required) : "";
    text += fmt::format("{:18} {:>10.2f} {:>20} {:>9}  {:12} {}\n", check.name, check.ratio.median,
                        interval_text(check.ratio, 1), required, check.required ? verdict_name(check.verdict) : "told",
                        check.what);
  }
  return text;
}

}  // namespace tzmark::bench
