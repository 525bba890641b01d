// tzmark compare: tests whether the results of one run are slower than those of another.
//
// Samples of different runs are not paired, so ranks decide: the Mann-Whitney test, with Holm's correction for the
// number of results. A regression is statistically significant and larger than the threshold.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/bench_commands.h"
#include "harness/statistics.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

struct CompareOptions {
  std::string old_file, new_file;
  double threshold = 0.05;
  double alpha = 0.05;
};

// A result that both runs have.
struct Comparison {
  std::string id;
  std::vector<double> old_rates, new_rates;
  double p = 1;
  double ratio() const { return median_interval(new_rates).median / median_interval(old_rates).median; }
};

json load(const std::string& file_name) {
  std::ifstream stream(file_name);
  if (!stream) throw Error(ErrorCode::kOpenFailed, "cannot open " + file_name);
  json document = json::parse(stream, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || document.value("kind", "") != "bench" || document.value("schema_version", 0) != 1) {
    throw Error(ErrorCode::kReadFailed, file_name + " is not a result of tzmark bench, or has another schema version");
  }
  return document;
}

// Returns bytes per second of each sample, by id; for writes also with the fsync.
std::map<std::string, std::vector<double>> rates_of(const json& document) {
  std::map<std::string, std::vector<double>> rates;
  for (const json& result : document.at("results")) {
    const auto id = result.at("id").get<std::string>();
    const auto bytes = result.at("bytes").get<double>();
    for (const json& sample : result.at("samples")) {
      const auto elapsed_ns = sample.at("elapsed_ns").get<double>();
      rates[id].push_back(bytes * 1e9 / elapsed_ns);
      const json& sync_ns = sample.at("sync_ns");
      if (!sync_ns.is_null()) rates[id + " to disk"].push_back(bytes * 1e9 / (elapsed_ns + sync_ns.get<double>()));
    }
  }
  return rates;
}

// Applies Holm's correction: multiplies the smallest of n p-values by n, the next by n - 1, and so on.
void correct(std::vector<Comparison>& rows) {
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return rows[i].p; });
  double highest = 0;
  for (std::size_t rank = 0; rank < order.size(); ++rank) {
    double& p = rows[order[rank]].p;
    highest = std::max(highest, std::min(1.0, p * static_cast<double>(order.size() - rank)));
    p = highest;
  }
}

void print_differences(const json& old_document, const json& new_document) {
  const json& before = old_document.at("machine");
  const json& after = new_document.at("machine");
  for (const char* fact : {"kernel", "cpu", "memory_bytes", "storage", "gpu"}) {
    json a = before.at(fact);
    json b = after.at(fact);
    if (a.is_object()) a.erase("free_bytes");
    if (b.is_object()) b.erase("free_bytes");
    if (a != b) say("machines differ in {}: {} and {}\n", fact, a.dump(), b.dump());
  }
}

std::string_view verdict(const Comparison& row, const CompareOptions& options) {
  if (row.p >= options.alpha) return "no significant difference";
  if (row.ratio() < 1 - options.threshold) return "REGRESSION";
  return row.ratio() > 1 + options.threshold ? "faster" : "difference below threshold";
}

void run(const CompareOptions& options, int& status) {
  const json old_document = load(options.old_file);
  const json new_document = load(options.new_file);
  const auto old_rates = rates_of(old_document);
  auto new_rates = rates_of(new_document);
  print_differences(old_document, new_document);
  std::vector<Comparison> rows;
  for (const auto& [id, before] : old_rates) {
    const auto found = new_rates.find(id);
    if (found == new_rates.end()) {
      say("only in {}: {}\n", options.old_file, id);
      continue;
    }
    rows.push_back({id, before, found->second, mann_whitney(before, found->second)});
    new_rates.erase(found);
  }
  for (const auto& [id, rates] : new_rates) say("only in {}: {}\n", options.new_file, id);
  if (rows.empty()) throw Error(ErrorCode::kUsage, "the two files have no result in common");
  correct(rows);
  say("{:84} {:>9} {:>9} {:>6} {:>7}  {}\n", "what", "old GB/s", "new GB/s", "ratio", "p", "verdict");
  for (const Comparison& row : rows) {
    const std::string_view said = verdict(row, options);
    say("{:84} {:>9.3f} {:>9.3f} {:>6.2f} {:>7.4f}  {}\n", row.id, median_interval(row.old_rates).median / 1e9,
        median_interval(row.new_rates).median / 1e9, row.ratio(), row.p, said);
    if (said == "REGRESSION") status = 1;
  }
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  auto options = std::make_shared<CompareOptions>();
  CLI::App* command = app.add_subcommand("compare", "Compare two results of bench; exit 1 on a regression");
  command->add_option("OLD", options->old_file, "Result of bench --json")->required();
  command->add_option("NEW", options->new_file, "Result of the same command, later or on another machine")->required();
  command
      ->add_option("--threshold", options->threshold,
                   "Fraction by which a result may be slower without being a regression")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->add_option("--alpha", options->alpha, "Probability of a false regression over the whole comparison")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command->callback([options, &status] { run(*options, status); });
}

}  // namespace tzmark::bench
