// Sizes of made-up tensors: the same numbers on every machine and with every standard library.
#pragma once

#include <cstdint>
#include <random>

namespace tzmark::bench {

// Each octave from one power of two to another is equally likely, as sizes in real checkpoints spread over many orders.
class RandomSizes {
 public:
  explicit RandomSizes(std::uint64_t seed) : random_(seed) {}

  // A multiple of 4 in [low_bytes, high_bytes]. REQUIRES: both are powers of two, 4 <= low_bytes < high_bytes.
  std::uint64_t next(std::uint64_t low_bytes, std::uint64_t high_bytes) {
    std::uint64_t octaves = 0;
    while ((low_bytes << octaves) < high_bytes) ++octaves;
    // The standard fixes what the engine gives and not what its distributions make of that, hence the remainders.
    const std::uint64_t base = low_bytes << (random_() % octaves);
    return base + (random_() % (base / 4 + 1)) * 4;
  }

  // Any index below count. REQUIRES: count > 0.
  std::uint64_t below(std::uint64_t count) { return random_() % count; }

 private:
  std::mt19937_64 random_;
};

}  // namespace tzmark::bench
