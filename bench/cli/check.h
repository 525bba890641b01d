// What the benchmark promises of the codec, as ratios of things that were measured in the same rounds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/rounds.h"
#include "subjects/others.h"

namespace tzmark::bench {

struct RatioCheck {
  std::string item;  // "4": of the list in docs/benchmarking.md
  std::string name;
  std::vector<std::string> measured = {}, against = {};  // ids of results, or what was computed of them
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
  std::vector<std::string> items;  // none: all
  RoundOptions rounds;
};

// Runs one group of subjects after another and holds them against each other. done is told of each group: its workloads
// by their contents, what was measured, and the checks.
using GroupDone =
    std::function<void(const std::vector<Workload>&, const std::vector<Measured>&, const std::vector<RatioCheck>&)>;
void run_checks(const CheckOptions& options, const GroupDone& done);

// A table for people: item, name, ratio with its interval, what is required, verdict.
std::string check_table(const std::vector<RatioCheck>& checks);

}  // namespace tzmark::bench
