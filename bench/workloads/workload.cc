// Makes workloads; see workload.h.
#include "workloads/workload.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

#include "tzmark/dtype.h"
#include "tzmark/error.h"
#include "workloads/scale.h"
#include "workloads/scenario.h"

namespace tzmark::bench {

// The workloads, each of a file of its own.
Scenario gpt2_scenario();
Scenario pythia_scenario();
Scenario llama_scenario();
Scenario mixtral_scenario();
Scenario sdxl_scenario();
Scenario one_huge_scenario();
Scenario many_tiny_scenario();
Scenario mixed_scenario();

namespace {

const auto& scenarios() {
  static const std::array all = {gpt2_scenario(),    pythia_scenario(),   sdxl_scenario(),      llama_scenario(),
                                 mixtral_scenario(), one_huge_scenario(), many_tiny_scenario(), mixed_scenario()};
  return all;
}

const Scenario& find_scenario(std::string_view name) {
  std::string names;
  for (const Scenario& scenario : scenarios()) {
    if (scenario.info.name == name) return scenario;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", scenario.info.name);
  }
  throw Error(ErrorCode::kUsage, fmt::format("unknown workload '{}'; known: {}", name, names));
}

}  // namespace

std::uint64_t TensorShape::elements() const {
  std::uint64_t product = 1;
  for (const std::uint64_t dimension : shape) product *= dimension;
  return product;
}

std::uint64_t TensorShape::data_bytes() const { return elements() * dtype_from_name(dtype).item_bytes; }

std::uint64_t Workload::largest_tensor_bytes() const {
  std::uint64_t largest = 0;
  for (const TensorShape& tensor : tensors) largest = std::max(largest, tensor.data_bytes());
  return largest;
}

std::uint64_t Workload::data_bytes() const {
  std::uint64_t sum = 0;
  for (const TensorShape& tensor : tensors) sum += tensor.data_bytes();
  return sum;
}

std::uint64_t Workload::full_bytes() const {
  return static_cast<std::uint64_t>(std::llround(static_cast<double>(data_bytes()) / scaled));
}

std::string Workload::label() const {
  if (scaled == 1) return name;
  const std::uint64_t bytes = data_bytes();
  return bytes < 1 << 20 ? fmt::format("{}/{}KiB", name, bytes >> 10) : fmt::format("{}/{}MiB", name, bytes >> 20);
}

std::span<const WorkloadInfo> workloads() {
  static const std::vector<WorkloadInfo> infos = [] {
    std::vector<WorkloadInfo> list;
    for (const Scenario& scenario : scenarios()) list.push_back(scenario.info);
    return list;
  }();
  return infos;
}

Workload make_workload(std::string_view name, std::optional<std::uint64_t> scale_bytes) {
  const Scenario& scenario = find_scenario(name);
  Workload workload{std::string(scenario.info.name), std::string(scenario.info.summary), {}, 1};
  if (scenario.synthetic != nullptr) {
    workload.tensors = scenario.synthetic(scale_bytes.value_or(scenario.default_bytes));
    return workload;
  }
  workload.tensors = scenario.model();
  if (scale_bytes) {
    const auto own_bytes = static_cast<double>(workload.data_bytes());
    workload.tensors = scale_to_fit(workload.tensors, *scale_bytes);
    workload.scaled = static_cast<double>(workload.data_bytes()) / own_bytes;
  }
  return workload;
}

Workload even_workload(std::uint64_t count, std::uint64_t tensor_bytes) {
  Workload workload{
      fmt::format("{}x{}", count, tensor_bytes), fmt::format("{} tensors of {} bytes", count, tensor_bytes), {}, 1};
  workload.tensors.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    workload.tensors.push_back({fmt::format("model.layers.{}.weight", i), "uint8", {tensor_bytes}});
  }
  return workload;
}

}  // namespace tzmark::bench
