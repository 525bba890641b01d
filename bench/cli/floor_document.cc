// Computes, writes and reads floors; see floor_document.h.
#include "cli/floor_document.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>

#include "harness/json_problem.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

constexpr double kSpreadMax = 10;          // a factor of 22,000
constexpr unsigned kProcessesMax = 10000;  // Student's quantile is integrated in steps that are too wide for more

// Returns the standard deviation of a value between processes; null if a process lacks it.
json spread_of(const std::vector<RunDocument>& runs, const std::string& id,
               const std::function<std::optional<double>(const RunDocument&, const Series&)>& value_of) {
  std::vector<double> values;
  double sum = 0;
  for (const RunDocument& run : runs) {
    const auto found = run.series.find(id);
    if (found == run.series.end() || found->second.rates.empty()) return nullptr;
    const std::optional<double> value = value_of(run, found->second);
    if (!value) return nullptr;
    values.push_back(*value);
    sum += *value;
  }
  const auto count = static_cast<double>(values.size());
  double squares = 0;
  for (const double value : values) squares += (value - sum / count) * (value - sum / count);
  return std::sqrt(squares / (count - 1));
}

}  // namespace

json floor_document(const std::vector<RunDocument>& runs) {
  if (runs.size() < 2) throw Error(ErrorCode::kUsage, "calibrating needs the results of at least two processes");
  json rows = json::array();
  for (const auto& [id, series] : runs.front().series) {
    const json rate = spread_of(runs, id, [](const RunDocument&, const Series& of) { return log_rate(of); });
    const json ratio = spread_of(runs, id, [](const RunDocument& run, const Series& of) -> std::optional<double> {
      const auto reference = run.series.find(of.reference);
      if (reference == run.series.end() || reference->second.rates.empty()) return {};
      return log_ratio(of, reference->second);
    });
    if (!rate.is_null()) rows.push_back({{"id", id}, {"rate_spread", rate}, {"ratio_spread", ratio}});
  }
  json facts = json::object();
  for (const auto& [name, value] : runs.front().facts) facts[name] = value;
  return {{"schema_version", 1}, {"kind", "floor"}, {"processes", runs.size()}, {"facts", facts}, {"rows", rows}};
}

FloorFile::FloorFile(const std::string& file) {
  const json document = parse_file(file);
  try {
    if (!document.is_object() || document.at("kind") != "floor" || document.at("schema_version") != 1) {
      throw Error(ErrorCode::kReadFailed, file + ": is not a floor file");
    }
    facts_.file = file;
    for (const auto& [name, value] : document.at("facts").items()) facts_.facts[name] = value;
    const json& processes = document.at("processes");
    if (!processes.is_number_unsigned() || processes < 2 || processes > kProcessesMax) {
      throw Error(ErrorCode::kReadFailed, fmt::format("{}: processes is no integer from 2 to {}", file, kProcessesMax));
    }
    processes_ = processes.get<std::size_t>();
    const auto add = [&](std::map<std::string, double>& spreads, const std::string& id, const json& value) {
      const auto spread = value.get<double>();
      if (spread >= 0 && spread < kSpreadMax && spreads.emplace(id, spread).second) return;
      throw Error(
          ErrorCode::kReadFailed,
          fmt::format("{}: the spread of '{}' is negative, {:.0f} or more, or given twice", file, id, kSpreadMax));
    };
    for (const json& row : document.at("rows")) {
      const auto id = row.at("id").get<std::string>();
      add(rate_spreads_, id, row.at("rate_spread"));
      if (!row.at("ratio_spread").is_null()) add(ratio_spreads_, id, row["ratio_spread"]);
    }
  } catch (const json::exception& error) {
    throw Error(ErrorCode::kReadFailed, fmt::format("{}: is not a floor file: {}", file, json_problem(error)));
  }
}

std::optional<Floor> FloorFile::floor_of(const std::string& id, bool of_ratio) const {
  const std::map<std::string, double>& spreads = of_ratio ? ratio_spreads_ : rate_spreads_;
  const auto found = spreads.find(id);
  if (found == spreads.end()) return {};
  return Floor{found->second, processes_};
}

}  // namespace tzmark::bench
