// The model of a simulated training run.
#include "training/simulated_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "bytes/digest.h"
#include "tzmark/error.h"

namespace tzmark::cli {
namespace {

constexpr std::uint64_t kOfElement = 0x9E3779B97F4A7C15;
constexpr std::uint64_t kOfStep = 0xD1B54A32D192ED03;

constexpr std::uint64_t kLayers = 8;
constexpr std::uint64_t kBytesOfParameter = 2 + 4 + 4;  // weight, m, v
constexpr std::uint64_t kAlignment = 64;
constexpr int kNotSplit = -1;

std::uint64_t seed_of(std::uint64_t seed, const std::string& name) {
  const std::string text = fmt::format("{}:{}", seed, name);
  const Sha256Digest digest = sha256(std::as_bytes(std::span(text)));
  std::uint64_t number = 0;
  for (std::size_t i = sizeof number; i-- > 0;) number = number << 8 | static_cast<std::uint8_t>(digest[i]);
  return number;
}

template <typename Word>
void fill_run(std::span<Word> words, std::uint64_t first) {
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<Word>(first + i * kOfElement);
}

template <typename Word>
void advance_words(std::span<Word> words) {
  for (Word& word : words) word = static_cast<Word>(word + static_cast<Word>(kOfStep));
}

// Calls action with the memory as a span of elements of the dtype.
template <typename Action>
void as_words(std::byte* memory, std::size_t bytes, std::string_view dtype, Action&& action) {
  if (dtype == "bfloat16") {
    action(std::span(reinterpret_cast<std::uint16_t*>(memory), bytes / 2));
  } else {
    action(std::span(reinterpret_cast<std::uint32_t*>(memory), bytes / 4));
  }
}

std::uint64_t elements_of(const std::vector<std::uint64_t>& shape) {
  std::uint64_t elements = 1;
  for (const std::uint64_t size : shape) elements *= size;
  return elements;
}

std::uint64_t bytes_of(const std::vector<std::uint64_t>& shape, std::string_view dtype) {
  return elements_of(shape) * (dtype == "bfloat16" ? 2 : 4);
}

}  // namespace

// Makes a decoder of eight layers. The size determines its width, and the vocabulary takes the remainder.
SimulatedModel::SimulatedModel(const SimulatedModelOptions& options) : options_(options) {
  constexpr std::uint64_t kWidthStep = 8, kFeedForward = 4, kMatrices = 4 + 3 * kFeedForward;
  const std::uint64_t parameters = options.state_bytes / kBytesOfParameter;
  // Leaves about a fifth of the parameters for the vocabulary.
  const double width_now = std::sqrt(static_cast<double>(parameters) / (kLayers * kMatrices * 1.25));
  const std::uint64_t width = static_cast<std::uint64_t>(width_now) / kWidthStep * kWidthStep;
  if (width == 0) throw Error(ErrorCode::kUsage, "the state is too small for a model; use at least 1 MiB");
  const std::uint64_t in_layers = kLayers * (kMatrices * width * width + 2 * width) + width;
  const std::uint64_t vocabulary = std::max(width, (parameters - in_layers) / (2 * width));

  sharding_.strategy = options.strategy;
  rank_bytes_.assign(options.world_size, 0);
  add("model.embed_tokens.weight", vocabulary, width, 0);
  for (std::uint64_t layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    for (const char* name : {"q", "k", "v"}) add(prefix + "self_attn." + name + "_proj.weight", width, width, 0);
    add(prefix + "self_attn.o_proj.weight", width, width, 1);
    for (const char* name : {"gate", "up"})
      add(prefix + "mlp." + name + "_proj.weight", kFeedForward * width, width, 0);
    add(prefix + "mlp.down_proj.weight", width, kFeedForward * width, 1);
    for (const char* name : {"input", "post_attention"}) add(prefix + name + "_layernorm.weight", width, 0, kNotSplit);
  }
  add("model.norm.weight", width, 0, kNotSplit);
  add("lm_head.weight", vocabulary, width, 0);
  make_views();
}

// columns 0: a vector.
void SimulatedModel::add(const std::string& name, std::uint64_t rows, std::uint64_t columns, int split_dimension) {
  Slice slice{.name = name, .dtype = "bfloat16", .shape = {rows}};
  if (columns != 0) slice.shape.push_back(columns);
  slice.run_elements = slice.stride_elements = elements_of(slice.shape);
  if (options_.strategy == Sharding::Strategy::kZeroPartitioned) {
    if (!is_own(name, elements_of(slice.shape) * kBytesOfParameter)) return;
  } else if (options_.strategy == Sharding::Strategy::kTensorParallel && split_dimension != kNotSplit) {
    const auto dimension = static_cast<std::size_t>(split_dimension);
    const std::uint64_t whole = slice.shape[dimension];
    const std::uint64_t begin = whole * options_.rank / options_.world_size;
    slice.shape[dimension] = whole * (options_.rank + 1) / options_.world_size - begin;
    slice.first_element = dimension == 0 ? begin * columns : begin;
    slice.run_elements = dimension == 0 ? elements_of(slice.shape) : slice.shape[1];
    slice.stride_elements = columns;
    sharding_.split_dims[name] = dimension;
  }
  sharding_.owned_params.push_back(name);
  add_slice(slice, name, "bfloat16");
  add_slice(slice, name + ".m", "float32");
  add_slice(slice, name + ".v", "float32");
}

// Assigns a weight to the rank with the fewest bytes. Every rank computes the same assignment.
bool SimulatedModel::is_own(const std::string& name, std::uint64_t bytes) {
  if (options_.owned) return std::ranges::find(*options_.owned, name) != options_.owned->end();
  const auto least = std::ranges::min_element(rank_bytes_);
  *least += bytes;
  return least - rank_bytes_.begin() == static_cast<std::ptrdiff_t>(options_.rank);
}

void SimulatedModel::add_slice(const Slice& weight, const std::string& name, const std::string& dtype) {
  Slice slice = weight;
  slice.name = name;
  slice.dtype = dtype;
  slice.memory_offset = memory_bytes_;
  const std::uint64_t bytes = bytes_of(slice.shape, dtype);
  data_bytes_ += bytes;
  memory_bytes_ += (bytes + kAlignment - 1) / kAlignment * kAlignment;
  slices_.push_back(std::move(slice));
}

void SimulatedModel::make_views() {
  memory_ = HostMemory(memory_bytes_);
  for (const Slice& slice : slices_) {
    const std::size_t bytes = bytes_of(slice.shape, slice.dtype);
    std::byte* const memory = memory_.bytes().data() + slice.memory_offset;
    as_words(memory, bytes, slice.dtype, [&](auto words) {
      std::uint64_t first = seed_of(options_.seed, slice.name) + slice.first_element * kOfElement;
      for (std::size_t begin = 0; begin < words.size(); begin += slice.run_elements) {
        fill_run(words.subspan(begin, slice.run_elements), first);
        first += slice.stride_elements * kOfElement;
      }
    });
    const bool is_weight = slice.dtype == "bfloat16";
    (is_weight ? model_ : optimizer_).push_back({slice.name, slice.dtype, slice.shape, {memory, bytes}});
  }
}

void SimulatedModel::advance() {
  for (const Slice& slice : slices_) {
    as_words(memory_.bytes().data() + slice.memory_offset, bytes_of(slice.shape, slice.dtype), slice.dtype,
             [](auto words) { advance_words(words); });
  }
}

void SimulatedModel::load(const LoadedCheckpoint& checkpoint, std::uint64_t step) {
  take(model_, checkpoint.model, step);
  take(optimizer_, checkpoint.optimizer, step);
}

// Advances from step 0 by a multiplication, since each step adds the same number to every element.
void SimulatedModel::take(TensorViews own, TensorViews loaded, std::uint64_t step) {
  const auto require = [&](bool condition, const std::string& what) {
    if (!condition) {
      throw Error(ErrorCode::kCheckpointDamaged,
                  fmt::format("{} differs from that of the simulation at step {}", what, step));
    }
  };
  require(own.size() == loaded.size(), fmt::format("the number of tensors ({})", loaded.size()));
  for (const CheckpointTensor& tensor : own) {
    const auto found = std::ranges::find(loaded, tensor.name, &CheckpointTensor::name);
    require(found != loaded.end() && found->dtype == tensor.dtype && found->shape == tensor.shape, tensor.name);
    // The view is one of memory_.
    std::byte* const memory = memory_.bytes().data() + (tensor.data.data - memory_.bytes().data());
    as_words(memory, tensor.data.size, tensor.dtype, [&](auto words) {
      using Word = typename decltype(words)::value_type;
      for (Word& word : words) word = static_cast<Word>(word + static_cast<Word>(step * kOfStep));
    });
    require(std::memcmp(memory, found->data.data, tensor.data.size) == 0, "the content of " + tensor.name);
  }
}

}  // namespace tzmark::cli
