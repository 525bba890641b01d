// Workloads: names, dtypes and shapes of published models, and three synthetic extremes.
//
// A workload holds no values, because throughput depends on sizes alone. Models have the shapes of their published
// checkpoints; each file names its source. Scaling a model shrinks all dimensions by a common factor and keeps its
// layers and experts, and so its mix of large and small tensors.
//
// Thread-safety: functions are thread-safe, workloads are values. Errors: tzmark::Error with kUsage.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tzmark::bench {

struct TensorShape {
  std::string name;
  std::string dtype;  // torch's name without "torch."
  std::vector<std::uint64_t> shape;

  std::uint64_t elements() const;
  std::uint64_t data_bytes() const;

  friend bool operator==(const TensorShape&, const TensorShape&) = default;
};

struct Workload {
  std::string name;
  std::string summary;
  std::vector<TensorShape> tensors;  // in file order
  double scaled = 1;                 // data_bytes relative to the full model; 1 for synthetic workloads

  std::uint64_t data_bytes() const;
  std::uint64_t largest_tensor_bytes() const;
  // The data_bytes of the full model.
  std::uint64_t full_bytes() const;
  // The name, and the size of what is not the full model: "gpt2", "gpt2/62MiB".
  std::string label() const;
};

struct WorkloadInfo {
  std::string_view name;
  std::string_view summary;
};

// All workloads: models from small to large, then the synthetic ones.
std::span<const WorkloadInfo> workloads();

// scale_bytes: maximum number of data bytes; from 16 MiB on, at least 90 % of it are used. A model never exceeds its
// own size, which is the default. Synthetic workloads take any size. Throws kUsage for an unknown name, listing the
// known ones, and if scale_bytes is less than one byte per tensor.
Workload make_workload(std::string_view name, std::optional<std::uint64_t> scale_bytes = std::nullopt);

// Makes count uint8 tensors of tensor_bytes each, named like the layers of a model.
Workload even_workload(std::uint64_t count, std::uint64_t tensor_bytes);

}  // namespace tzmark::bench
