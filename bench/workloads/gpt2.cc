// GPT-2 (124 million parameters) as the file model.safetensors of the hub's openai-community/gpt2 has it.
//
// Source: config n_embd 768, n_layer 12, n_positions 1024, vocab_size 50257. That file stores linear layers as
// [in, out] and keeps each layer's causal mask, a buffer of 1024 x 1024 float32 values, next to the parameters.
#include <fmt/format.h>

#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kHidden = 768;
constexpr std::uint64_t kPositions = 1024;
constexpr std::uint64_t kVocabulary = 50257;
constexpr int kLayers = 12;

// GPT-2 stores weights as [in, out], so the bias has their second dimension.
void add_linear(TensorList& list, const std::string& prefix, std::uint64_t in, std::uint64_t out) {
  list.add(prefix + ".weight", {in, out});
  list.add(prefix + ".bias", {out});
}

std::vector<TensorShape> tensors() {
  TensorList list("float32");
  list.add("wte.weight", {kVocabulary, kHidden});
  list.add("wpe.weight", {kPositions, kHidden});
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("h.{}.", layer);
    list.add_with_bias(prefix + "ln_1", {kHidden});
    list.add(prefix + "attn.bias", {1, 1, kPositions, kPositions});
    add_linear(list, prefix + "attn.c_attn", kHidden, 3 * kHidden);
    add_linear(list, prefix + "attn.c_proj", kHidden, kHidden);
    list.add_with_bias(prefix + "ln_2", {kHidden});
    add_linear(list, prefix + "mlp.c_fc", kHidden, 4 * kHidden);
    add_linear(list, prefix + "mlp.c_proj", 4 * kHidden, kHidden);
  }
  list.add_with_bias("ln_f", {kHidden});
  return list.take();
}

}  // namespace

Scenario gpt2_scenario() { return {{"gpt2", "GPT-2, 124 M parameters, float32"}, tensors, nullptr, 0}; }

}  // namespace tzmark::bench
