// What was measured of the checkpointer, held against what it promises: as JSON
// (reports/schema/checkpoint-bench.schema.json), and as a table for people.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoints/measurement.h"
#include "harness/statistics.h"

namespace tzmark::bench {

// A ratio within each round, and what it has to be. Without required it is only told.
struct CheckpointCheck {
  std::string name;
  std::string what;  // is divided by what
  Interval ratio;
  std::optional<double> required;
  bool at_most = false;
  CheckVerdict verdict = CheckVerdict::kNotMeasured;  // of one with required
};

std::vector<CheckpointCheck> check_checkpoints(const Measurement& measurement);

nlohmann::json checkpoint_document(const std::vector<std::string>& command, const MeasurementOptions& options,
                                   const Measurement& measurement, const std::vector<CheckpointCheck>& checks);

std::string checkpoint_table(const Measurement& measurement, const std::vector<CheckpointCheck>& checks);

}  // namespace tzmark::bench
