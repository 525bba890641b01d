// Makes models with their optimizers; see checkpoint_state.h.
#include "checkpoints/checkpoint_state.h"

namespace tzmark::bench {
namespace {

Workload optimizer_of(const Workload& model) {
  Workload optimizer{.name = model.name + ", optimizer", .summary = "", .tensors = {}};
  for (const TensorShape& tensor : model.tensors) {
    for (const char* moment : {".m", ".v"}) {
      optimizer.tensors.push_back({tensor.name + moment, "float32", tensor.shape});
    }
  }
  return optimizer;
}

// Scales the model so that the optimizer fits as well.
Workload model_of(const std::string& name, std::uint64_t bytes_max) {
  const Workload whole = make_workload(name, bytes_max);
  const double both = static_cast<double>(whole.data_bytes() + optimizer_of(whole).data_bytes());
  const double part = static_cast<double>(whole.data_bytes()) / both;
  return make_workload(name, static_cast<std::uint64_t>(static_cast<double>(bytes_max) * part));
}

}  // namespace

std::vector<CheckpointTensor> views_of(const TensorContent& content) {
  std::vector<CheckpointTensor> views;
  for (std::size_t i = 0; i < content.table().size(); ++i) {
    const TensorShape& tensor = content.workload().tensors[i];
    views.push_back({tensor.name, tensor.dtype, tensor.shape, content[i]});
  }
  return views;
}

CheckpointState::CheckpointState(const std::string& workload, std::uint64_t bytes_max)
    : model_(model_of(workload, bytes_max)),
      optimizer_(optimizer_of(model_.workload())),
      model_views_(views_of(model_)),
      optimizer_views_(views_of(optimizer_)) {}

}  // namespace tzmark::bench
