// Model and optimizer of a simulated training run: realistic names, shapes and dtypes, with content computed from seed
// and step, so that a loaded checkpoint can be checked against the step that it names.
//
// Element e of a (whole) tensor after step s, truncated to its width:
//   B + e * 0x9E3779B97F4A7C15 + s * 0xD1B54A32D192ED03
// B is the little-endian number in the first 8 bytes of the SHA-256 of "SEED:NAME".
//
// Thread-safety: one thread at a time. Ownership: a model owns its tensors; views refer to them and change with them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tzmark/checkpoint.h"
#include "tzmark/memory.h"

namespace tzmark::cli {

struct SimulatedModelOptions {
  std::uint64_t state_bytes = 0;  // approximate size of model and optimizer over all ranks
  std::uint64_t seed = 0;
  Sharding::Strategy strategy = Sharding::Strategy::kReplicated;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  // With kZeroPartitioned: the weights of this rank, as partitioned before; nullopt: the model partitions them.
  std::optional<std::vector<std::string>> owned;
};

class SimulatedModel {
 public:
  // Makes the part of one rank, at step 0. Throws kUsage if state_bytes is too small for a model.
  explicit SimulatedModel(const SimulatedModelOptions& options);

  TensorViews model() const { return model_; }          // weights, bfloat16
  TensorViews optimizer() const { return optimizer_; }  // NAME.m and NAME.v of each, float32
  const Sharding& sharding() const { return sharding_; }
  std::uint64_t data_bytes() const { return data_bytes_; }
  std::uint64_t memory_bytes() const { return memory_bytes_; }  // with the padding between tensors

  // Runs one step: reads and writes every element.
  void advance();
  // Advances to the step of a checkpoint. Throws CKP-002 if its content differs from that of this model at the step.
  void load(const LoadedCheckpoint& checkpoint, std::uint64_t step);

 private:
  // A tensor, or a rank's part of it: runs of consecutive elements of the whole tensor.
  struct Slice {
    std::string name;
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::uint64_t first_element = 0;    // of the whole tensor
    std::uint64_t run_elements = 0;     // consecutive in the whole tensor
    std::uint64_t stride_elements = 0;  // between the beginnings of two runs
    std::size_t memory_offset = 0;
  };

  void add(const std::string& name, std::uint64_t rows, std::uint64_t columns, int split_dimension);
  bool is_own(const std::string& name, std::uint64_t bytes);
  void add_slice(const Slice& weight, const std::string& name, const std::string& dtype);
  void make_views();
  void take(TensorViews own, TensorViews loaded, std::uint64_t step);

  SimulatedModelOptions options_;
  Sharding sharding_;
  std::vector<Slice> slices_;  // a weight, its m, its v, the next weight ...
  std::vector<std::uint64_t> rank_bytes_;
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t data_bytes_ = 0;
  HostMemory memory_;
  std::vector<CheckpointTensor> model_, optimizer_;
};

}  // namespace tzmark::cli
