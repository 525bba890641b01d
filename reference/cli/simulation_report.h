// What a simulated training run has shown: for people on lines, for programs as JSON
// (reports/schema/checkpoint-simulate.schema.json).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/simulation.h"

namespace tzmark::cli {

// Of the steps that a set has; in nanoseconds.
struct StepSummary {
  std::size_t count = 0;
  std::uint64_t mean_ns = 0;  // what the loop feels: a median would not show few steps that are held up for long
  std::uint64_t median_ns = 0;
  std::uint64_t p99_ns = 0;  // the smallest that 99 % of the steps do not exceed
};

// The steps of a run: all, those beside which a save was written from begin to end, and those beside which none was.
// A step at the edge of a save is in neither of the latter.
struct StepTimes {
  StepSummary all, draining, idle;
  std::optional<double> slow_down;  // the mean of draining over that of idle, if there are both
};

StepTimes step_times(const SimulationResult& result);

// One line without its end: that a checkpoint is durable, and what it cost.
std::string durable_line(const SimulatedSave& save);
std::string summary_line(const SimulationResult& result);

nlohmann::json to_json(const SimulationOptions& options, const SimulationResult& result);

}  // namespace tzmark::cli
