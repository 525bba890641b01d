// Simulates comparisons of builds: false alarms between equal ones, and the slow-downs that are found.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "harness/comparison.h"
#include "harness/ranks.h"
#include "harness/sequential.h"
#include "simulation/run_noise.h"
#include "simulation/simulations.h"

namespace tzmark::bench::simulation {
namespace {

constexpr std::size_t kRows = 30;
constexpr std::size_t kSamples = 7;
constexpr std::size_t kRuns = 10;       // on each side, as docs/benchmarking.md recommends to begin with
constexpr std::size_t kPairs = 15;      // the same for pairs
constexpr std::size_t kRunsMax = 100;   // on each side
constexpr std::size_t kPairsMax = 864;  // a look of SequentialRatio
constexpr ComparisonRule kPaired{0.01, 0.02, true};
constexpr double kPlanted = 0.05;
constexpr double kPlantedPaired = 0.02;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Both sides of each row; the processes of the sides run in turn, in random order.
using Rows = std::vector<RunSets>;

Rows draw_rows(RunSource& source, std::size_t runs, double planted) {
  Rows rows(kRows);
  for (std::size_t run = 0; run < runs; ++run) {
    source.begin_pair();
    const bool old_first = source.coin();
    for (const bool is_old : {old_first, !old_first}) {
      source.begin_process();
      for (std::size_t row = 0; row < kRows; ++row) {
        const double slower = row == 0 && !is_old ? std::log1p(-planted) : 0;
        (is_old ? rows[row].before : rows[row].after).push_back(median_of(source.samples(row, kSamples)) + slower);
      }
    }
  }
  return rows;
}

bool any_regression(const std::vector<Comparison>& rows) {
  return std::ranges::any_of(rows, [](const Comparison& row) { return row.change == Change::kRegression; });
}

// What compare did before: samples of one process on each side as replicates, the Mann-Whitney test, Holm's correction
// at 5 %, a threshold of 5 %. Returns the rows that it calls regressions; the first is the planted one.
std::vector<bool> old_method(RunSource& source, std::size_t samples, double planted) {
  std::vector<std::vector<double>> before;
  std::vector<std::vector<double>> after;
  source.begin_pair();
  source.begin_process();
  for (std::size_t row = 0; row < kRows; ++row) before.push_back(source.samples(row, samples));
  source.begin_process();
  for (std::size_t row = 0; row < kRows; ++row) after.push_back(source.samples(row, samples));
  for (double& value : after[0]) value += std::log1p(-planted);
  std::vector<double> p(kRows);
  for (std::size_t row = 0; row < kRows; ++row) p[row] = unpaired_shift(before[row], after[row], 0.05).p;
  std::vector<std::size_t> order(kRows);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t row) { return p[row]; });
  std::vector<bool> claims(kRows);
  for (std::size_t rank = 0; rank < kRows; ++rank) {
    const std::size_t row = order[rank];
    if (p[row] * static_cast<double>(kRows - rank) >= 0.05) break;
    claims[row] = median_of(after[row]) - median_of(before[row]) < std::log1p(-0.05);
  }
  return claims;
}

// Single processes, as compare judges them: beyond the floor, and with disjoint intervals of their samples.
bool single_regression(RunSource& source) { return any_regression(compare_runs(draw_rows(source, 1, 0), {})); }

struct Sequential {
  bool planted_found = false, false_alarm = false;
  std::size_t pairs = 0;  // at which the last row was decided, or the first if it was found
};

// Pairs of fresh processes of two builds in turn, until every row is decided, with a look at each step.
Sequential run_against(RunSource& source, double planted) {
  const ComparisonRule rule;
  static const SequentialRatio fresh(rule.alpha / static_cast<double>(kRows));
  std::vector<SequentialRatio> sequences(kRows, fresh);
  std::vector<ChangeVerdict> verdicts(kRows, ChangeVerdict::kUndecided);
  Sequential result;
  const std::size_t watched = planted > 0 ? 1 : kRows;
  for (std::size_t pair = 1; pair <= kPairsMax; ++pair) {
    source.begin_pair();
    const bool old_first = source.coin();
    std::vector<double> log_ratios(kRows);
    for (const bool is_old : {old_first, !old_first}) {
      source.begin_process();
      for (std::size_t row = 0; row < watched; ++row) {
        if (verdicts[row] != ChangeVerdict::kUndecided) continue;
        const double slower = row == 0 && !is_old ? std::log1p(-planted) : 0;
        log_ratios[row] += (is_old ? -1 : 1) * (median_of(source.samples(row, kSamples)) + slower);
      }
    }
    bool all_decided = true;
    for (std::size_t row = 0; row < watched; ++row) {
      if (verdicts[row] != ChangeVerdict::kUndecided) continue;
      if (sequences[row].add(log_ratios[row])) verdicts[row] = judge_change(sequences[row].interval());
      all_decided = all_decided && verdicts[row] != ChangeVerdict::kUndecided;
    }
    result.pairs = pair;
    if (all_decided) break;
  }
  result.planted_found = verdicts[0] == ChangeVerdict::kSlower;
  result.false_alarm =
      std::find(verdicts.begin() + (planted > 0 ? 1 : 0), verdicts.end(), ChangeVerdict::kSlower) != verdicts.end();
  return result;
}

std::string percent(std::size_t count, std::size_t of) {
  return fmt::format("{:.1f} %", 100 * static_cast<double>(count) / static_cast<double>(of));
}

std::vector<RunNoise> kinds_of(const ComparisonSimulation& options) {
  std::vector<RunNoise> kinds = {RunNoise::kGaussian, RunNoise::kHeavyTailed, RunNoise::kDrifting, RunNoise::kBimodal,
                                 RunNoise::kBetweenRuns};
  if (!options.real.empty()) kinds.push_back(RunNoise::kReal);
  return kinds;
}

}  // namespace

std::string false_alarm_table(const ComparisonSimulation& options) {
  std::string table =
      "| noise | old, 7 samples | old, 20 samples | 1 run on a side | 10 runs on a side | 15 pairs | pairs until "
      "decided |\n"
      "|---|---:|---:|---:|---:|---:|---:|\n";
  for (const RunNoise kind : kinds_of(options)) {
    std::size_t old_7 = 0;
    std::size_t old_20 = 0;
    std::size_t single = 0;
    std::size_t several = 0;
    std::size_t paired = 0;
    std::size_t in_turn = 0;
    for (std::size_t i = 0; i < options.comparisons; ++i) {
      std::mt19937_64 random(options.seed + 7919 * i);
      RunSource source(kind, kRows, options.real, random);
      const auto alarms = [](const std::vector<bool>& claims) {
        return std::ranges::find(claims, true) != claims.end();
      };
      old_7 += alarms(old_method(source, 7, 0)) ? 1 : 0;
      old_20 += alarms(old_method(source, 20, 0)) ? 1 : 0;
      single += single_regression(source) ? 1 : 0;
      several += any_regression(compare_runs(draw_rows(source, kRuns, 0), {})) ? 1 : 0;
      paired += any_regression(compare_runs(draw_rows(source, kPairs, 0), kPaired)) ? 1 : 0;
      in_turn += run_against(source, 0).false_alarm ? 1 : 0;
    }
    const std::size_t all = options.comparisons;
    table += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", name_of(kind), percent(old_7, all),
                         kind == RunNoise::kReal ? "-" : percent(old_20, all),
                         kind == RunNoise::kReal ? "busy" : percent(single, all), percent(several, all),
                         percent(paired, all), percent(in_turn, all));
  }
  return table;
}

std::string power_table(const ComparisonSimulation& options) {
  std::string table =
      "| noise | old finds 5 % | 15 pairs find 5 % | 15 pairs say they may not | pairs for 5 % | these find it | pairs "
      "until 2 % is decided | found |\n"
      "|---|---:|---:|---:|---:|---:|---:|---:|\n";
  // Power needs fewer comparisons than rare false alarms.
  const std::size_t all = std::max<std::size_t>(1, options.comparisons / 4);
  for (const RunNoise kind : kinds_of(options)) {
    std::size_t by_old = 0;
    std::size_t found = 0;
    std::size_t told = 0;
    std::vector<double> needed;
    std::vector<double> pairs;
    std::size_t found_in_turn = 0;
    std::size_t found_as_told = 0;
    for (std::size_t i = 0; i < all; ++i) {
      std::mt19937_64 random(options.seed + 104729 * (i + 1));
      RunSource source(kind, kRows, options.real, random);
      by_old += old_method(source, 7, kPlanted)[0] ? 1 : 0;
      const Comparison row = compare_runs(draw_rows(source, kPairs, kPlanted), kPaired)[0];
      found += row.change == Change::kRegression ? 1 : 0;
      told += !row.detectable || *row.detectable > kPlanted ? 1 : 0;
      needed.push_back(static_cast<double>(runs_to_find(kPlanted, row.spread, kRows, kPaired).value_or(kRunsMax)));
      const Sequential in_turn = run_against(source, kPlantedPaired);
      found_in_turn += in_turn.planted_found ? 1 : 0;
      pairs.push_back(static_cast<double>(in_turn.pairs));
    }
    const auto runs = std::min(kRunsMax, static_cast<std::size_t>(median_of(needed)));
    for (std::size_t i = 0; i < all; ++i) {
      std::mt19937_64 random(options.seed + 1299709 * (i + 1));
      RunSource source(kind, kRows, options.real, random);
      found_as_told +=
          compare_runs(draw_rows(source, runs, kPlanted), kPaired)[0].change == Change::kRegression ? 1 : 0;
    }
    table += fmt::format("| {} | {} | {} | {} | {} | {} | {:.0f} | {} |\n", name_of(kind), percent(by_old, all),
                         percent(found, all), percent(told, all), runs, percent(found_as_told, all), median_of(pairs),
                         percent(found_in_turn, all));
  }
  return table;
}

RealRuns read_real_runs(const nlohmann::json& document) {
  RealRuns rows;
  for (const auto& row : document.at("rows")) {
    std::vector<std::vector<double>> processes;
    for (const auto& process : row.at("rates")) {
      std::vector<double> logs;
      for (const auto& rate : process) logs.push_back(std::log(rate.get<double>()));
      processes.push_back(std::move(logs));
    }
    rows.push_back(std::move(processes));
  }
  return rows;
}

}  // namespace tzmark::bench::simulation
