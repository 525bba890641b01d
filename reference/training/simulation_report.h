// The results of a simulated training run, as lines for people and as JSON for programs
// (reports/schema/checkpoint-simulate.schema.json).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "training/simulation.h"

namespace tzmark::cli {

// Times of a set of steps.
struct StepSummary {
  std::size_t count = 0;
  std::uint64_t mean_ns = 0;  // a median would hide a few long delays
  std::uint64_t median_ns = 0;
  std::uint64_t p99_ns = 0;  // the smallest time that 99 % of the steps do not exceed
};

// Times of all steps, of those that ran entirely during the write of a save, and of those that ran entirely outside
// one. A step that overlaps the edge of a write is in neither of the latter.
struct StepTimes {
  StepSummary all, draining, idle;
  std::optional<double> slow_down;  // mean of draining / mean of idle, if both have steps
};

StepTimes step_times(const SimulationResult& result);

// Formats one line, without a newline: the checkpoint that is durable, and what it cost.
std::string durable_line(const SimulatedSave& save);
std::string summary_line(const SimulationResult& result);

nlohmann::json to_json(const SimulationOptions& options, const SimulationResult& result);

}  // namespace tzmark::cli
