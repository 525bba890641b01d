// The shards of a checkpoint as one whole: which tensors there are, and how they are put together.
//
// Nothing is read but headers, and what several ranks have and must have alike. Throws CKP-005 for shards that do not
// fit together, CKP-003 for ranks that are not at the same step.
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

// Whole tensors, over the files of the ranks.
struct MergedTensors {
  TensorTable table;
  SlicedSource source;
  std::vector<std::optional<std::uint64_t>> split_dims;  // along which each tensor was split, if it was
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

  // The parameter that a tensor of the optimizer belongs to: the longest name of the model that it begins with, as in
  // NAME.ANYTHING. A position in the model.
  std::optional<std::size_t> parameter_of(const std::string& optimizer_name) const;

 private:
  TrainingState state_;
  Sharding sharding_;
  std::vector<std::unique_ptr<TensorFile>> model_files_, optimizer_files_;  // of each rank; none: it has no optimizer
  MergedTensors model_, optimizer_;
  std::map<std::string, std::size_t> model_places_;
};

}  // namespace tzmark::checkpoint
