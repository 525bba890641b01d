// Sizes of synthetic tensors, equal on every machine and with every standard library.
#pragma once

#include <cstdint>
#include <random>

namespace tzmark::bench {

// Each power of two is equally likely, because sizes in real checkpoints span many orders of magnitude.
class RandomSizes {
 public:
  explicit RandomSizes(std::uint64_t seed) : random_(seed) {}

  // Returns a multiple of 4 in [low_bytes, high_bytes]. REQUIRES: both are powers of two, 4 <= low_bytes < high_bytes.
  std::uint64_t next(std::uint64_t low_bytes, std::uint64_t high_bytes) {
    std::uint64_t octaves = 0;
    while ((low_bytes << octaves) < high_bytes) ++octaves;
    // Remainders, because the standard defines the output of engines but not of distributions.
    const std::uint64_t base = low_bytes << (random_() % octaves);
    return base + (random_() % (base / 4 + 1)) * 4;
  }

  // Returns an index below count. REQUIRES: count > 0.
  std::uint64_t below(std::uint64_t count) { return random_() % count; }

 private:
  std::mt19937_64 random_;
};

}  // namespace tzmark::bench
