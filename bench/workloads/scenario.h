// What each file of this folder contributes to the list of workloads.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/workload.h"

namespace tzmark::bench {

// A list of tensors of one dtype that grows in file order.
class TensorList {
 public:
  explicit TensorList(std::string dtype) : dtype_(std::move(dtype)) {}

  void add(std::string name, std::initializer_list<std::uint64_t> shape) { add_as(dtype_, std::move(name), shape); }
  void add_as(std::string dtype, std::string name, std::initializer_list<std::uint64_t> shape) {
    tensors_.push_back({std::move(name), std::move(dtype), shape});
  }
  // PREFIX.weight and PREFIX.bias. The bias has one value for each row, the weight's first dimension.
  void add_with_bias(const std::string& prefix, std::initializer_list<std::uint64_t> weight_shape) {
    add(prefix + ".weight", weight_shape);
    add(prefix + ".bias", {*weight_shape.begin()});
  }
  std::vector<TensorShape> take() { return std::move(tensors_); }

 private:
  std::string dtype_;
  std::vector<TensorShape> tensors_;
};

struct Scenario {
  WorkloadInfo info;
  // The tensors of a model at its own size. Null where there is no model.
  std::vector<TensorShape> (*model)();
  // Tensors that have at most so many bytes together. Null for models, which are scaled instead.
  std::vector<TensorShape> (*made_up)(std::uint64_t bytes);
  std::uint64_t default_bytes;  // of a made-up one
};

Scenario gpt2_scenario();
Scenario pythia_scenario();
Scenario llama_scenario();
Scenario mixtral_scenario();
Scenario sdxl_scenario();
Scenario one_huge_scenario();
Scenario many_tiny_scenario();
Scenario mixed_scenario();

}  // namespace tzmark::bench
