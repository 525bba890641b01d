// Results and checks of the checkpointer, as JSON (reports/schema/checkpoint-bench.schema.json) and as a table.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoints/measurement.h"
#include "harness/statistics.h"

namespace tzmark::bench {

// A ratio within each round and its requirement. Without one it is only reported.
struct CheckpointCheck {
  std::string name;
  std::string what;  // numerator and denominator
  Interval ratio;
  std::optional<double> required;
  bool at_most = false;
  CheckVerdict verdict = CheckVerdict::kNotMeasured;  // with a requirement
};

std::vector<CheckpointCheck> check_checkpoints(const Measurement& measurement);

nlohmann::json checkpoint_document(const std::vector<std::string>& command, const MeasurementOptions& options,
                                   const Measurement& measurement, const std::vector<CheckpointCheck>& checks);

std::string checkpoint_table(const Measurement& measurement, const std::vector<CheckpointCheck>& checks);

}  // namespace tzmark::bench
