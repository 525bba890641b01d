// The result document of tzmark tune; reports/schema/tune.schema.json describes it. Thread-safe.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/tune/tune_options.h"
#include "cli/tune/tune_outcome.h"

namespace tzmark::bench {

// machine: by machine_facts, before the measurement.
nlohmann::json tune_document(const TuneOutcome& outcome, const TuneOptions& options,
                             const std::vector<std::string>& command, const std::string& started_at,
                             const nlohmann::json& machine, std::chrono::nanoseconds elapsed);

}  // namespace tzmark::bench
