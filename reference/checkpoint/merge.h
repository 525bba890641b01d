// The shards of a checkpoint merged to whole tensors.
//
// Reads only headers, and tensors that several ranks have, which must be equal. Throws CKP-005 for shards that do not
// fit together, CKP-003 for ranks at different steps.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/load.h"
#include "checkpoint/sliced_source.h"
#include "tzmark/table.h"

namespace tzmark::checkpoint {

// Whole tensors that are read from the files of the ranks.
struct MergedTensors {
  TensorTable table;
  SlicedSource source;
  std::vector<std::optional<std::uint64_t>> split_dims;  // the dimension that each tensor was split along, if any
  std::vector<std::string> names;
};

class MergedCheckpoint {
 public:
  // Verifies every file first if there is a commit.json.
  explicit MergedCheckpoint(const StoredCheckpoint& stored);

  const MergedTensors& model() const { return model_; }
  const MergedTensors& optimizer() const { return optimizer_; }
  const Sharding& sharding() const { return sharding_; }
  const TrainingState& state() const { return state_; }

  // Returns the position in the model of the parameter that an optimizer tensor NAME.ANYTHING belongs to: the one with
  // the longest matching NAME.
  std::optional<std::size_t> parameter_of(const std::string& optimizer_name) const;

 private:
  TrainingState state_;
  Sharding sharding_;
  std::vector<std::unique_ptr<TensorFile>> model_files_, optimizer_files_;  // by rank; empty without an optimizer
  MergedTensors model_, optimizer_;
  std::map<std::string, std::size_t> model_places_;
};

}  // namespace tzmark::checkpoint
