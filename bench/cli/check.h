// The performance checks: ratios of subjects that were measured back to back, until each is decided.
#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/contest.h"
#include "subjects/others.h"

namespace tzmark::bench {

struct RatioCheck {
  std::string item;  // "4": an item of the list in docs/benchmarking.md
  std::string name;
  std::vector<std::string> measured = {}, against = {};  // ids of results, or a description
  RatioInterval ratio = {};                              // pairs: laps
  double required = 1;
  bool at_most = false;
  std::optional<BoundVerdict> verdict = {};  // absent: not measured
  std::size_t disturbed_laps = 0;            // repeated, part of no ratio
  std::uint64_t elapsed_ns = 0;
  std::string note = {};
};

nlohmann::json to_json(const RatioCheck& check);

// Of a set of large tensors: at least so many, and by default of that size.
inline constexpr std::size_t kLargeTensorsMin = 32;
inline constexpr std::uint64_t kLargeTensorBytes = 4 << 20;

struct CheckOptions {
  // Of reads; see large_tensors and written_tensors.
  std::uint64_t scale_bytes = kLargeTensorsMin * kLargeTensorBytes;
  std::size_t large_tensors = kLargeTensorsMin;
  std::size_t gpu_set_bytes = kGpuWorkingSetBytes;
  std::vector<std::string> names = {};  // of check_names(); empty: all
  std::vector<std::string> io = {};     // of raw, hash and bytes; empty: six, four, and all
  std::string workload = {};            // of python and safetensors; empty: all of theirs
  ContestOptions contests = {};         // the budget is that of all checks together
};

// Returns how many large tensors the cores hash at once, but no more than take seconds to write at their default size.
// With fewer of them, cores would hash fewer side by side than the rate that they are held against takes for granted.
std::size_t large_tensors_for(std::size_t threads, std::size_t lanes);

// Returns the names of the items, in the order of their numbers.
std::vector<std::string> check_names();

// Runs the groups of subjects one after another, unless the contests are stopped, and compares them. Calls done after
// each group with its workloads, measurements and checks. A group may use what those before it left of the budget.
// Returns what the machine was like.
using GroupDone =
    std::function<void(const std::vector<Workload>&, const std::vector<Measured>&, const std::vector<RatioCheck>&)>;
MachineConditions run_checks(Workplace& place, const CheckOptions& options, const GroupDone& done);

// Formats a table: item, name, ratio with its interval, laps, required ratio, verdict.
std::string check_table(const std::vector<RatioCheck>& checks);

}  // namespace tzmark::bench
