// Pythia-1.4B as the checkpoint EleutherAI/pythia-1.4b on the hub has it.
//
// Source: config hidden_size 2048, num_hidden_layers 24, intermediate_size 8192, vocab_size 50304,
// max_position_embeddings 2048, 16 heads of 128 of which rotary_pct 0.25 turn; parameters are float16, the embeddings
// are not tied. The buffers are those that the model's class registered when the checkpoint was made: the causal mask
// with a byte an element, a scalar and the rotary frequencies. They bring it to the 2.93 GB of the published file.
#include <fmt/format.h>

#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kHidden = 2048;
constexpr std::uint64_t kPositions = 2048;
constexpr std::uint64_t kVocabulary = 50304;
constexpr std::uint64_t kRotaryFrequencies = 128 / 4 / 2;
constexpr int kLayers = 24;

std::vector<TensorShape> tensors() {
  TensorList list("float16");
  list.add("gpt_neox.embed_in.weight", {kVocabulary, kHidden});
  for (int layer = 0; layer < kLayers; ++layer) {
    const std::string prefix = fmt::format("gpt_neox.layers.{}.", layer);
    list.add_with_bias(prefix + "input_layernorm", {kHidden});
    list.add_with_bias(prefix + "post_attention_layernorm", {kHidden});
    list.add_as("uint8", prefix + "attention.bias", {1, 1, kPositions, kPositions});
    list.add(prefix + "attention.masked_bias", {});
    list.add(prefix + "attention.rotary_emb.inv_freq", {kRotaryFrequencies});
    list.add_with_bias(prefix + "attention.query_key_value", {3 * kHidden, kHidden});
    list.add_with_bias(prefix + "attention.dense", {kHidden, kHidden});
    list.add_with_bias(prefix + "mlp.dense_h_to_4h", {4 * kHidden, kHidden});
    list.add_with_bias(prefix + "mlp.dense_4h_to_h", {kHidden, 4 * kHidden});
  }
  list.add_with_bias("gpt_neox.final_layer_norm", {kHidden});
  list.add("embed_out.weight", {kVocabulary, kHidden});
  return list.take();
}

}  // namespace

Scenario pythia_scenario() {
  return {{"pythia-1.4b", "Pythia, 1.4 G parameters, float16, with its mask buffers"}, tensors, nullptr, 0};
}

}  // namespace tzmark::bench
