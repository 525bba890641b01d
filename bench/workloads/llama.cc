// Llama-3.1-8B and Mixtral-8x7B as the checkpoints meta-llama/Llama-3.1-8B and mistralai/Mixtral-8x7B-v0.1 on the hub
// have them, the shards of each as one list.
//
// Source: both configs have hidden_size 4096, intermediate_size 14336, num_hidden_layers 32, 8 key-value heads of 128;
// bfloat16, no biases, embeddings not tied. Llama: vocab_size 128256. Mixtral: vocab_size 32000, num_local_experts 8.
#include <fmt/format.h>

#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kHidden = 4096;
constexpr std::uint64_t kIntermediate = 14336;
constexpr std::uint64_t kKeyValue = 8 * 128;
constexpr int kLayers = 32;

void add_experts(TensorList& list, const std::string& prefix, std::uint64_t experts) {
  for (std::uint64_t expert = 0; expert < experts; ++expert) {
    const std::string name = fmt::format("{}experts.{}.", prefix, expert);
    list.add(name + "w1.weight", {kIntermediate, kHidden});
    list.add(name + "w2.weight", {kHidden, kIntermediate});
    list.add(name + "w3.weight", {kIntermediate, kHidden});
  }
  list.add(prefix + "gate.weight", {experts, kHidden});
}

// experts: 0 for one dense MLP per layer. Tensors are in alphabetical order within a layer.
std::vector<TensorShape> tensors(std::uint64_t vocabulary, std::uint64_t experts) {
  TensorList list("bfloat16");
  list.add("model.embed_tokens.weight", {vocabulary, kHidden});
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    if (experts > 0) add_experts(list, prefix + "block_sparse_moe.", experts);
    list.add(prefix + "input_layernorm.weight", {kHidden});
    if (experts == 0) {
      list.add(prefix + "mlp.down_proj.weight", {kHidden, kIntermediate});
      list.add(prefix + "mlp.gate_proj.weight", {kIntermediate, kHidden});
      list.add(prefix + "mlp.up_proj.weight", {kIntermediate, kHidden});
    }
    list.add(prefix + "post_attention_layernorm.weight", {kHidden});
    list.add(prefix + "self_attn.k_proj.weight", {kKeyValue, kHidden});
    list.add(prefix + "self_attn.o_proj.weight", {kHidden, kHidden});
    list.add(prefix + "self_attn.q_proj.weight", {kHidden, kHidden});
    list.add(prefix + "self_attn.v_proj.weight", {kKeyValue, kHidden});
  }
  list.add("model.norm.weight", {kHidden});
  list.add("lm_head.weight", {vocabulary, kHidden});
  return list.take();
}

}  // namespace

Scenario llama_scenario() {
  return {{"llama-3.1-8b", "Llama 3.1, 8.0 G parameters, bfloat16"}, [] { return tensors(128256, 0); }, nullptr, 0};
}

Scenario mixtral_scenario() {
  return {{"mixtral-8x7b", "Mixtral, 8 experts, 46.7 G parameters, bfloat16"},
          [] { return tensors(32000, 8); },
          nullptr,
          0};
}

}  // namespace tzmark::bench
