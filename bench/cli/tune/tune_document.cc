// Turns the outcome into JSON; see tune_document.h.
#include "cli/tune/tune_document.h"

#include <cmath>

#include "cli/result_document.h"
#include "harness/or_null.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

json interval(double estimate, double low, double high) {
  const bool is_known = std::isfinite(high) && std::isfinite(low);
  return {{"estimate", estimate}, {"low", is_known ? json(low) : json()}, {"high", is_known ? json(high) : json()}};
}

// Before the first look of a sequential interval, it is everything.
json interval(const RatioInterval& ratio) { return interval(ratio.estimate, ratio.low, ratio.high); }

json setting_json(const TunedSetting& tuned) {
  const Setting& setting = tuned.setting;
  const std::vector<double> rates = rates_of(tuned.samples);
  const auto cpu = tuned.cpu_seconds_per_byte();
  return {{"io", setting.io},
          {"block_bytes", setting.block_bytes},
          {"queue_depth", setting.queue_depth},
          {"threads", setting.threads},
          {"pages", name_of(setting.pages)},
          {"bytes_in_flight_bytes", setting.bytes_in_flight()},
          {"samples", rates},
          {"rate", rates.empty() ? json() : to_json(median_interval(rates))},
          {"cpu_seconds_per_gb", cpu ? json(*cpu * 1e9) : json()},
          {"peak_memory_bytes", or_null(tuned.peak_memory_bytes())},
          {"rounds_survived", tuned.rounds_survived},
          {"is_tie", tuned.is_tie},
          {"failed", tuned.failed.empty() ? json() : json(tuned.failed)}};
}

json ceiling_json(const CeilingOutcome& ceiling) {
  if (!ceiling.verdict) return nullptr;
  json measured = json::array();
  for (const auto& [name, rate] : ceiling.measured) measured.push_back({{"name", name}, {"rate", to_json(rate)}});
  return {{"name", ceiling.verdict->name},
          {"text", ceiling.verdict->text},
          {"rate", ceiling.verdict->rate},
          {"share", ceiling.verdict->share},
          {"measured", std::move(measured)}};
}

json sustained_json(const SustainedOutcome& sustained) {
  json rates = json::array();
  for (const std::optional<double>& rate : sustained.series.rates) rates.push_back(or_null(rate));
  return {{"duration_s", sustained.duration_s},
          {"bucket_ns", sustained.series.bucket_ns},
          {"rates", std::move(rates)},
          {"verdict", verdict_name(sustained.state.verdict)},
          {"began_s", or_null(sustained.began_s)},
          {"text", sustained.text}};
}

json task_json(const TaskOutcome& found) {
  const SearchResult& search = found.search;
  json settings = json::array();
  for (const TunedSetting& tuned : search.settings) settings.push_back(setting_json(tuned));
  json confirmation = json::array();
  for (const Confirmation& one : search.confirmation) {
    confirmation.push_back({{"setting", one.setting},
                            {"against", one.against},
                            {"ratio", interval(one.ratio)},
                            {"pairs", one.ratio.pairs}});
  }
  const auto& loses = search.standard_loses;
  return {{"task", name_of(found.task)},
          {"cache", cache_name(found.task)},
          {"elapsed_ns", found.elapsed.count()},
          {"settings", std::move(settings)},
          {"best", or_null(search.best)},
          {"recommended", or_null(search.recommended)},
          {"default", search.settings.empty() ? json() : json(search.standard)},
          {"least_in_flight", or_null(search.least_in_flight)},
          {"verdict", verdict_name(search.verdict)},
          {"confirmation", std::move(confirmation)},
          {"default_loses", loses ? interval(loses->estimate, loses->low, loses->high) : json()},
          {"ceiling", ceiling_json(found.ceiling)},
          {"sustained", found.sustained ? sustained_json(*found.sustained) : json()}};
}

json model_json(const TuneOutcome& outcome) {
  json fits = json::array();
  for (const TaskOutcome& found : outcome.tasks) {
    if (!found.model) continue;
    json points = json::array();
    for (const ModelPoint& point : found.points) {
      points.push_back({{"workload", point.workload},
                        {"tensors", point.cost.tensors},
                        {"bytes", point.cost.bytes},
                        {"seconds", median_interval(point.cost.seconds).median}});
    }
    fits.push_back({{"task", name_of(found.task)},
                    {"open_s", found.model->open_s()},
                    {"per_tensor_s", found.model->per_tensor_s()},
                    {"per_byte_s", found.model->per_byte_s()},
                    {"points", std::move(points)},
                    {"spread", found.model->spread()}});
  }
  if (fits.empty()) return nullptr;
  json predictions = json::array();
  for (const PredictionOutcome& one : outcome.predictions) {
    predictions.push_back({{"workload", one.workload},
                           {"task", name_of(one.task)},
                           {"tensors", one.tensors},
                           {"bytes", one.bytes},
                           {"seconds", one.time.seconds},
                           {"low", std::max(0.0, one.time.low)},
                           {"high", one.time.high}});
  }
  return {{"fits", std::move(fits)}, {"predictions", std::move(predictions)}};
}

}  // namespace

json tune_document(const TuneOutcome& outcome, const TuneOptions& options, const std::vector<std::string>& command,
                   const std::string& started_at, const json& machine, std::chrono::nanoseconds elapsed) {
  json tasks = json::array();
  for (const TaskOutcome& found : outcome.tasks) tasks.push_back(task_json(found));
  json skipped = json::array();
  for (const SkippedTask& one : outcome.skipped) {
    skipped.push_back({{"task", name_of(one.task)}, {"reason", one.reason}});
  }
  json advice = json::array();
  for (const AdviceOutcome& one : outcome.advice) {
    advice.push_back({{"what", one.advice.what},
                      {"why", one.advice.why},
                      {"command", or_null(one.advice.command)},
                      {"needs_root", one.advice.needs_root},
                      {"effect", one.effect ? interval(*one.effect) : json()},
                      {"task", one.advice.task}});
  }
  json exports = json::array();
  for (const Export& one : outcome.exports) {
    exports.push_back({{"name", one.name},
                       {"task", one.task},
                       {"file_name", or_null(one.file_name)},
                       {"text", one.text},
                       {"lost", one.lost}});
  }
  return {{"schema_version", 1},
          {"kind", "tune"},
          {"tool", tool_facts()},
          {"command", shown_command(command)},
          {"started_at", started_at},
          {"elapsed_ns", elapsed.count()},
          {"seed", options.seed},
          {"budget_s", options.budget_s},
          {"is_complete", outcome.is_complete},
          {"warnings", outcome.warnings},
          {"machine", machine},
          {"io_paths", io_path_facts()},
          {"probe", outcome.url.empty() ? to_json(outcome.probe) : json()},
          {"memory", options.memory},
          {"workload",
           {{"name", outcome.workload_name},
            {"label", outcome.workload_label},
            {"bytes", outcome.bytes},
            {"tensors", outcome.tensors}}},
          {"tasks", std::move(tasks)},
          {"skipped", std::move(skipped)},
          {"advice", std::move(advice)},
          {"model", model_json(outcome)},
          {"exports", std::move(exports)}};
}

}  // namespace tzmark::bench
