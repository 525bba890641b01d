// Llama-3.1-8B as the checkpoint meta-llama/Llama-3.1-8B on the hub has it, its four shards as one list.
//
// Source: config hidden_size 4096, intermediate_size 14336, num_hidden_layers 32, 32 heads and 8 key-value heads of
// 128, vocab_size 128256; bfloat16, no biases, embeddings not tied.
#include <fmt/format.h>

#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kHidden = 4096;
constexpr std::uint64_t kIntermediate = 14336;
constexpr std::uint64_t kKeyValue = 8 * 128;
constexpr std::uint64_t kVocabulary = 128256;
constexpr int kLayers = 32;

std::vector<TensorShape> tensors() {
  TensorList list("bfloat16");
  list.add("model.embed_tokens.weight", {kVocabulary, kHidden});
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    list.add(prefix + "input_layernorm.weight", {kHidden});
    list.add(prefix + "mlp.down_proj.weight", {kHidden, kIntermediate});
    list.add(prefix + "mlp.gate_proj.weight", {kIntermediate, kHidden});
    list.add(prefix + "mlp.up_proj.weight", {kIntermediate, kHidden});
    list.add(prefix + "post_attention_layernorm.weight", {kHidden});
    list.add(prefix + "self_attn.k_proj.weight", {kKeyValue, kHidden});
    list.add(prefix + "self_attn.o_proj.weight", {kHidden, kHidden});
    list.add(prefix + "self_attn.q_proj.weight", {kHidden, kHidden});
    list.add(prefix + "self_attn.v_proj.weight", {kKeyValue, kHidden});
  }
  list.add("model.norm.weight", {kHidden});
  list.add("lm_head.weight", {kVocabulary, kHidden});
  return list.take();
}

}  // namespace

Scenario llama_scenario() { return {{"llama-3.1-8b", "Llama 3.1, 8.0 G parameters, bfloat16"}, tensors, nullptr, 0}; }

}  // namespace tzmark::bench
