// The simulations behind docs/what-the-numbers-mean.md. Each returns a table in Markdown and is determined by its seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "simulation/run_noise.h"

namespace tzmark::bench::simulation {

struct IntervalSimulation {
  std::size_t runs = 2000;
  std::uint64_t seed = 1;
};

// The interval of a ratio under repeated looks: how often it contains the true ratio at every look, and how many pairs
// decide a bound 5 % below the true ratio. The same for intervals by signs.
std::string interval_table(const IntervalSimulation& options);

struct ComparisonSimulation {
  std::size_t comparisons = 2000;  // per kind of noise
  std::uint64_t seed = 1;
  RealRuns real = {};  // empty: not simulated
};

// How often a comparison of 30 rows of equal builds calls any a regression, by method.
std::string false_alarm_table(const ComparisonSimulation& options);
// How often a slow-down of one of 30 rows is found, and with how many runs.
std::string power_table(const ComparisonSimulation& options);

struct TuningSimulation {
  std::size_t searches = 100;  // of each surface
  std::uint64_t seed = 1;
};

struct TuningTable {
  std::string text;
  // Whether each search, on each surface, recommends a setting within 3 % of the best and no slower than the default
  // one, finds few enough bytes in flight that reach 95 % of the peak, and costs at most a tenth of the full grid; and
  // whether 95 % of the searches say that nothing matters where all settings are equal.
  bool holds = true;
};

// Searches of simulated storage: how close to its best setting they end, and at what part of the cost of the full grid.
TuningTable tuning_table(const TuningSimulation& options);

// Reads real-runs.json.
RealRuns read_real_runs(const nlohmann::json& document);

}  // namespace tzmark::bench::simulation
