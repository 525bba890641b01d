// The entries of the list of workloads.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "workloads/workload.h"

namespace tzmark::bench {

// Builds a list of tensors of one dtype, in file order.
class TensorList {
 public:
  explicit TensorList(std::string dtype) : dtype_(std::move(dtype)) {}

  void add(std::string name, std::initializer_list<std::uint64_t> shape) { add_as(dtype_, std::move(name), shape); }
  void add_as(std::string dtype, std::string name, std::initializer_list<std::uint64_t> shape) {
    tensors_.push_back({std::move(name), std::move(dtype), shape});
  }
  // Adds PREFIX.weight and PREFIX.bias, which has the first dimension of the weight.
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
  // The tensors of a model at its own size. Null for synthetic workloads.
  std::vector<TensorShape> (*model)();
  // Synthetic tensors of at most this many bytes together. Null for models, which are scaled instead.
  std::vector<TensorShape> (*synthetic)(std::uint64_t bytes);
  std::uint64_t default_bytes;  // of a synthetic workload
};

}  // namespace tzmark::bench
