// The state in a checkpoint: the model of a workload and its optimizer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "subjects/content.h"
#include "tzmark/checkpoint.h"

namespace tzmark::bench {

// Views of all tensors, which must outlive them.
std::vector<CheckpointTensor> views_of(const TensorContent& content);

// The tensors of the model and, for each, two float32 moments, in memory. Immutable.
class CheckpointState {
 public:
  // bytes_max: of model and optimizer together. Throws kUsage as make_workload does.
  CheckpointState(const std::string& workload, std::uint64_t bytes_max);

  const TensorContent& model() const { return model_; }
  const TensorContent& optimizer() const { return optimizer_; }
  TensorViews model_views() const { return model_views_; }
  TensorViews optimizer_views() const { return optimizer_views_; }
  std::uint64_t data_bytes() const { return model_.data_bytes() + optimizer_.data_bytes(); }

 private:
  TensorContent model_, optimizer_;
  std::vector<CheckpointTensor> model_views_, optimizer_views_;
};

}  // namespace tzmark::bench
