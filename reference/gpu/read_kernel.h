// The kernel that reads device memory and does nothing with it: what is left is the time of the memory, which no kernel
// that computes a hash can go below.
#pragma once

#include "gpu/kernel.h"

namespace tzmark::gpu {

constexpr unsigned kReadThreads = 512;
constexpr unsigned kReadAhead = 8;  // loads in flight of a thread
constexpr unsigned kReadTileBytes = kReadThreads * kReadAhead * sizeof(Words);

struct ReadArguments {
  std::uint64_t address;  // a multiple of 16
  std::uint64_t tile_count;
  std::uint64_t word_count;  // of 16 bytes, after the tiles
  std::uint32_t* result;
};

template <typename Block>
TZMARK_DEVICE void read_kernel(const Block& block, const ReadArguments& arguments) {
  block.each([&](unsigned thread) {
    std::uint32_t seen = 0;
    for (std::uint64_t tile = block.number(); tile < arguments.tile_count; tile += block.count()) {
      const std::uint64_t address = arguments.address + tile * kReadTileBytes + thread * sizeof(Words);
      Words words[kReadAhead];
      TZMARK_UNROLL for (unsigned i = 0; i < kReadAhead; ++i) {
        words[i] = load_words(address + i * kReadThreads * sizeof(Words));
      }
      TZMARK_UNROLL for (unsigned i = 0; i < kReadAhead; ++i) {
        seen |= words[i].word[0] | words[i].word[1] | words[i].word[2] | words[i].word[3];
      }
    }
    const std::uint64_t rest = arguments.address + arguments.tile_count * kReadTileBytes;
    for (std::uint64_t i = std::uint64_t{block.number()} * kReadThreads + thread; i < arguments.word_count;
         i += std::uint64_t{block.count()} * kReadThreads) {
      const Words words = load_words(rest + i * sizeof(Words));
      seen |= words.word[0] | words.word[1] | words.word[2] | words.word[3];
    }
    // The compiler would remove loads that have no effect. All threads write the same.
    if (seen != 0) *arguments.result = 1;
  });
}

}  // namespace tzmark::gpu
