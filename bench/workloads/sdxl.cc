// The UNet of Stable Diffusion XL as stabilityai/stable-diffusion-xl-base-1.0 has it in unet/, fp16 variant.
//
// Source: config block_out_channels 320, 640, 1280; layers_per_block 2; transformer_layers_per_block 1, 2, 10, where
// the first level has no attention at all; cross_attention_dim 2048; projection_class_embeddings_input_dim 2816;
// linear projections. Tensors are in the order in which the model's class creates its modules.
#include <fmt/format.h>

#include <array>

#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kImageChannels = 4;
constexpr std::uint64_t kTime = 1280;        // size of the time embedding
constexpr std::uint64_t kText = 2048;        // size of the encoded prompt per token
constexpr std::uint64_t kAddedEmbed = 2816;  // size of pooled prompt and image sizes together
constexpr int kDownResnets = 2;              // per level when downsampling; one more when upsampling

struct Level {
  std::uint64_t channels;
  int transformers;  // per attention of the level; 0: no attention
};
constexpr std::array kLevels = {Level{320, 0}, Level{640, 2}, Level{1280, 10}};

void add_convolution(TensorList& list, const std::string& name, std::uint64_t in, std::uint64_t out) {
  list.add_with_bias(name, {out, in, 3, 3});
}

void add_resnet(TensorList& list, const std::string& name, std::uint64_t in, std::uint64_t out) {
  list.add_with_bias(name + ".norm1", {in});
  add_convolution(list, name + ".conv1", in, out);
  list.add_with_bias(name + ".time_emb_proj", {out, kTime});
  list.add_with_bias(name + ".norm2", {out});
  add_convolution(list, name + ".conv2", out, out);
  if (in != out) list.add_with_bias(name + ".conv_shortcut", {out, in, 1, 1});
}

// from: the size of the input of keys and values.
void add_attention_heads(TensorList& list, const std::string& name, std::uint64_t channels, std::uint64_t from) {
  list.add(name + ".to_q.weight", {channels, channels});
  list.add(name + ".to_k.weight", {channels, from});
  list.add(name + ".to_v.weight", {channels, from});
  list.add_with_bias(name + ".to_out.0", {channels, channels});
}

void add_attention(TensorList& list, const std::string& name, const Level& level) {
  const std::uint64_t channels = level.channels;
  list.add_with_bias(name + ".norm", {channels});
  list.add_with_bias(name + ".proj_in", {channels, channels});
  for (int i = 0; i < level.transformers; ++i) {
    const std::string block = fmt::format("{}.transformer_blocks.{}", name, i);
    list.add_with_bias(block + ".norm1", {channels});
    add_attention_heads(list, block + ".attn1", channels, channels);
    list.add_with_bias(block + ".norm2", {channels});
    add_attention_heads(list, block + ".attn2", channels, kText);
    list.add_with_bias(block + ".norm3", {channels});
    // GEGLU: half of the first layer's output gates the other half.
    list.add_with_bias(block + ".ff.net.0.proj", {8 * channels, channels});
    list.add_with_bias(block + ".ff.net.2", {channels, 4 * channels});
  }
  list.add_with_bias(name + ".proj_out", {channels, channels});
}

// Adds the downsampling blocks. Returns the channels of the skip connections, which upsampling consumes last to first.
std::vector<std::uint64_t> add_down_blocks(TensorList& list) {
  std::uint64_t channels = kLevels.front().channels;
  std::vector<std::uint64_t> skipped = {channels};
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    const Level& level = kLevels[i];
    const std::string block = fmt::format("down_blocks.{}", i);
    for (int j = 0; j < kDownResnets && level.transformers > 0; ++j) {
      add_attention(list, fmt::format("{}.attentions.{}", block, j), level);
    }
    for (int j = 0; j < kDownResnets; ++j) {
      add_resnet(list, fmt::format("{}.resnets.{}", block, j), std::exchange(channels, level.channels), level.channels);
      skipped.push_back(channels);
    }
    if (i + 1 == kLevels.size()) continue;
    add_convolution(list, block + ".downsamplers.0.conv", channels, channels);
    skipped.push_back(channels);
  }
  return skipped;
}

void add_middle_block(TensorList& list) {
  const Level& level = kLevels.back();
  add_attention(list, "mid_block.attentions.0", level);
  for (int i = 0; i < 2; ++i) {
    add_resnet(list, fmt::format("mid_block.resnets.{}", i), level.channels, level.channels);
  }
}

void add_up_blocks(TensorList& list, std::vector<std::uint64_t> skipped) {
  std::uint64_t channels = kLevels.back().channels;
  for (std::size_t i = 0; i < kLevels.size(); ++i) {
    const Level& level = kLevels[kLevels.size() - 1 - i];
    const std::string block = fmt::format("up_blocks.{}", i);
    for (int j = 0; j <= kDownResnets && level.transformers > 0; ++j) {
      add_attention(list, fmt::format("{}.attentions.{}", block, j), level);
    }
    for (int j = 0; j <= kDownResnets; ++j) {
      add_resnet(list, fmt::format("{}.resnets.{}", block, j), std::exchange(channels, level.channels) + skipped.back(),
                 level.channels);
      skipped.pop_back();
    }
    if (i + 1 < kLevels.size()) add_convolution(list, block + ".upsamplers.0.conv", channels, channels);
  }
}

std::vector<TensorShape> tensors() {
  constexpr std::uint64_t kFirst = kLevels.front().channels;
  TensorList list("float16");
  add_convolution(list, "conv_in", kImageChannels, kFirst);
  list.add_with_bias("time_embedding.linear_1", {kTime, kFirst});
  list.add_with_bias("time_embedding.linear_2", {kTime, kTime});
  list.add_with_bias("add_embedding.linear_1", {kTime, kAddedEmbed});
  list.add_with_bias("add_embedding.linear_2", {kTime, kTime});
  const std::vector<std::uint64_t> skipped = add_down_blocks(list);
  add_up_blocks(list, skipped);
  add_middle_block(list);
  list.add_with_bias("conv_norm_out", {kFirst});
  add_convolution(list, "conv_out", kFirst, kImageChannels);
  return list.take();
}

}  // namespace

Scenario sdxl_scenario() {
  return {{"sdxl-unet", "Stable Diffusion XL's UNet, 2.6 G parameters, float16"}, tensors, nullptr, 0};
}

}  // namespace tzmark::bench
