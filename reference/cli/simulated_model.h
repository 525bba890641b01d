// Model and optimizer of a simulated training run: real names, shapes and dtypes, and content that follows from the
// seed and the step, so that whoever loads a checkpoint can tell that it has the content of the step that it names.
//
// The element with number e of a tensor, counted over the whole tensor, is after step s, in two's complement of its
// width:  B + e * 0x9E3779B97F4A7C15 + s * 0xD1B54A32D192ED03.
// B is the little-endian number in the first 8 bytes of the SHA-256 of "SEED:NAME".
//
// Thread-safety: for one thread at a time. Ownership: a model owns its tensors; the views show them, and change with
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tzmark/checkpoint.h"
#include "tzmark/memory.h"

namespace tzmark::cli {

struct SimulatedModelOptions {
  std::uint64_t state_bytes = 0;  // of model and optimizer of all ranks, about
  std::uint64_t seed = 0;
  Sharding::Strategy strategy = Sharding::Strategy::kReplicated;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  // Of kZeroPartitioned: the weights of this rank, as they were dealt out before; nothing: they are dealt out here.
  std::optional<std::vector<std::string>> owned;
};

class SimulatedModel {
 public:
  // The part of one rank, at step 0. Throws kUsage where state_bytes is too little for a model.
  explicit SimulatedModel(const SimulatedModelOptions& options);

  TensorViews model() const { return model_; }          // weights, bfloat16
  TensorViews optimizer() const { return optimizer_; }  // NAME.m and NAME.v of each, float32
  const Sharding& sharding() const { return sharding_; }
  std::uint64_t data_bytes() const { return data_bytes_; }
  std::uint64_t memory_bytes() const { return memory_bytes_; }  // with what is between the tensors

  // One step: reads and writes every element.
  void advance();
  // Takes over what was loaded. Throws CKP-002 if it is not what this model has after that step.
  void load(const LoadedCheckpoint& checkpoint, std::uint64_t step);

 private:
  // A tensor, or a rank's part of it: runs of elements that follow each other in the whole tensor.
  struct Part {
    std::string name;
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::uint64_t first_element = 0;    // of the whole tensor
    std::uint64_t run_elements = 0;     // that follow each other
    std::uint64_t stride_elements = 0;  // from the beginning of one run to that of the next
    std::size_t memory_offset = 0;
  };

  void add(const std::string& name, std::uint64_t rows, std::uint64_t columns, int split_dimension);
  bool is_own(const std::string& name, std::uint64_t bytes);
  void add_part(const Part& weight, const std::string& name, const std::string& dtype);
  void make_views();
  void take(TensorViews own, TensorViews loaded, std::uint64_t step);

  SimulatedModelOptions options_;
  Sharding sharding_;
  std::vector<Part> parts_;  // a weight, its m, its v, the next weight ...
  std::vector<std::uint64_t> rank_bytes_;
  std::uint64_t memory_bytes_ = 0;
  std::uint64_t data_bytes_ = 0;
  HostMemory memory_;
  std::vector<CheckpointTensor> model_, optimizer_;
};

}  // namespace tzmark::cli
