// The performance checks: ratios of subjects that were measured in the same rounds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/rounds.h"
#include "subjects/others.h"

namespace tzmark::bench {

struct RatioCheck {
  std::string item;  // "4": an item of the list in docs/benchmarking.md
  std::string name;
  std::vector<std::string> measured = {}, against = {};  // ids of results, or a description
  Interval ratio = {};
  double required = 1;
  bool at_most = false;
  CheckVerdict verdict = CheckVerdict::kNotMeasured;
  std::string note = {};
};

nlohmann::json to_json(const RatioCheck& check);

struct CheckOptions {
  std::string directory;
  std::uint64_t scale_bytes = 512 << 20;
  std::size_t gpu_set_bytes = kGpuWorkingSetBytes;
  std::vector<std::string> items;  // empty: all
  RoundOptions rounds;
};

// Runs the groups of subjects one after another and compares them. Calls done after each group with its workloads,
// measurements and checks.
using GroupDone =
    std::function<void(const std::vector<Workload>&, const std::vector<Measured>&, const std::vector<RatioCheck>&)>;
void run_checks(const CheckOptions& options, const GroupDone& done);

// Formats a table: item, name, ratio with its interval, required ratio, verdict.
std::string check_table(const std::vector<RatioCheck>& checks);

}  // namespace tzmark::bench
