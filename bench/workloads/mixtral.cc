// Mixtral-8x7B as the checkpoint mistralai/Mixtral-8x7B-v0.1 on the hub has it, its nineteen shards as one list.
//
// Source: config hidden_size 4096, intermediate_size 14336, num_hidden_layers 32, num_local_experts 8, 8 key-value
// heads of 128, vocab_size 32000; bfloat16, no biases, embeddings not tied.
#include <fmt/format.h>

#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kHidden = 4096;
constexpr std::uint64_t kIntermediate = 14336;
constexpr std::uint64_t kKeyValue = 8 * 128;
constexpr std::uint64_t kVocabulary = 32000;
constexpr int kExperts = 8;
constexpr int kLayers = 32;

std::vector<TensorShape> tensors() {
  TensorList list("bfloat16");
  list.add("model.embed_tokens.weight", {kVocabulary, kHidden});
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    for (int expert = 0; expert < kExperts; ++expert) {
      const std::string name = fmt::format("{}block_sparse_moe.experts.{}.", prefix, expert);
      list.add(name + "w1.weight", {kIntermediate, kHidden});
      list.add(name + "w2.weight", {kHidden, kIntermediate});
      list.add(name + "w3.weight", {kIntermediate, kHidden});
    }
    list.add(prefix + "block_sparse_moe.gate.weight", {kExperts, kHidden});
    list.add(prefix + "input_layernorm.weight", {kHidden});
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

Scenario mixtral_scenario() {
  return {{"mixtral-8x7b", "Mixtral, 8 experts, 46.7 G parameters, bfloat16"}, tensors, nullptr, 0};
}

}  // namespace tzmark::bench
