// The floor file: what processes of one build differ by on one machine, below which no comparison claims anything.
// reports/schema/floor.schema.json describes it.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_document.h"
#include "harness/comparison.h"

namespace tzmark::bench {

// Computes the floor from runs of fresh processes of one build. Throws kUsage for fewer than two.
nlohmann::json floor_document(const std::vector<RunDocument>& runs);

class FloorFile {
 public:
  // Throws kReadFailed if it is not a floor file.
  explicit FloorFile(const std::string& file);

  // The floor of rates, or of ratios to the raw path. Nothing for results that were not calibrated.
  std::optional<Floor> floor_of(const std::string& id, bool of_ratio) const;
  // The runs that it was made of.
  std::size_t processes() const { return processes_; }
  // The facts that it shares with results, as a document without results.
  const RunDocument& facts() const { return facts_; }

 private:
  RunDocument facts_;
  std::size_t processes_ = 0;
  std::map<std::string, double> rate_spreads_, ratio_spreads_;
};

}  // namespace tzmark::bench
