// The result document that reports, comparisons and people read; reports/schema/bench.schema.json describes it.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "cli/check.h"
#include "cli/rounds.h"
#include "workloads/workload.h"

namespace tzmark::bench {

// A rung of the ceiling ladder, as measured in the rounds.
struct CeilingRate {
  std::string rung;  // "memcpy", "crc32", "sha256", "secretbox", "path-read/direct", "device-write"
  unsigned threads = 0;
  Interval rate;
  std::string note;
};

class Document {
 public:
  Document(std::vector<std::string> command, std::string directory);

  void add_workload(const Workload& workload);
  // What was measured side by side. Names for each result the rung that binds it.
  void add(const std::vector<Measured>& measured);
  void add(const std::vector<Check>& checks);
  nlohmann::json finish(unsigned rounds, std::uint64_t seed);

 private:
  nlohmann::json json_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// The rungs among what was measured side by side.
std::vector<CeilingRate> ceilings_of(const std::vector<Measured>& measured);

}  // namespace tzmark::bench
