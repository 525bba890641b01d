// The tensor lists that the benchmark moves: names, dtypes and shapes of published models, and three made-up extremes.
//
// A workload holds no values, since throughput depends on sizes alone. Shapes of models are those of the published
// checkpoints; each file of this folder names its source. A scaled model keeps its layers, its experts and so its mix
// of large and small tensors: all dimensions shrink by one common factor.
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
  double scaled = 1;                 // data_bytes as a part of the model's own; 1 where there is no model

  std::uint64_t data_bytes() const;
};

struct WorkloadInfo {
  std::string_view name;
  std::string_view summary;
};

// All of them: models from small to large, then the made-up ones.
std::span<const WorkloadInfo> workloads();

// scale_bytes: the data never has more bytes than this, and for 16 MiB and more at least 90 % of it. A model never
// grows beyond its own size; without scale_bytes it has that size. The made-up workloads take any size.
// Throws kUsage with the list of names for an unknown one, and where scale_bytes is too little for one byte a tensor.
Workload make_workload(std::string_view name, std::optional<std::uint64_t> scale_bytes = std::nullopt);

// count tensors of tensor_bytes each, named as layers of a model are, dtype uint8. For questions about one size.
Workload even_workload(std::uint64_t count, std::uint64_t tensor_bytes);

}  // namespace tzmark::bench
