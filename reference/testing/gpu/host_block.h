// For tests: runs kernels on the host, step by step, with the arithmetic that the GPU runs.
#pragma once

#include <bit>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/kernel.h"

namespace tzmark::gpu {

// Adds the products of bit matrices, in one lane.
inline void add_products_of_lane(unsigned lane, BitCounts& counts, const PerLane<Words>& rows,
                                 const PerLane<BitColumn>& columns) {
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
    for (unsigned t = 0; t < 4; ++t) {
      for (unsigned half = 0; half < 2; ++half) {
        const std::uint32_t of_row = rows[row % 8 * 4 + t].word[2 * half + row / 8];
        counts.count[i] += static_cast<std::uint32_t>(std::popcount(of_row & columns[column * 4 + t].word[half]));
      }
    }
  }
}

// A warp whose lanes take each step one after the other, in the order of its block.
class HostWarp {
 public:
  explicit HostWarp(bool is_reversed) : is_reversed_(is_reversed) {}

  template <typename Step>
  void each(Step&& step) const {
    for (unsigned i = 0; i < kLanes; ++i) step(is_reversed_ ? kLanes - 1 - i : i);
  }
  static void sync() {}
  template <typename From>
  void exchange(PerLane<std::uint32_t>& value, From&& from) const {
    const PerLane<std::uint32_t> before = value;
    each([&](unsigned lane) { value[lane] = before[from(lane)]; });
  }
  static std::uint32_t of_first_lane(const PerLane<std::uint32_t>& value) { return value[0]; }
  void add_products(PerLane<BitCounts>& counts, const PerLane<Words>& rows, const PerLane<BitColumn>& columns) const {
    each([&](unsigned lane) { add_products_of_lane(lane, counts[lane], rows, columns); });
  }

 private:
  bool is_reversed_;
};

// A block whose threads take each step one after the other: in every second block the last one first, so that a step
// which depends on what another thread does in the same step gives two results.
class HostBlock {
 public:
  HostBlock(unsigned number, unsigned count, unsigned threads) : number_(number), count_(count), threads_(threads) {}

  unsigned number() const { return number_; }
  unsigned count() const { return count_; }
  template <typename Step>
  void each(Step&& step) const {
    for (unsigned i = 0; i < threads_; ++i) step(is_reversed() ? threads_ - 1 - i : i);
  }
  template <typename Part>
  void each_warp(Part&& part) const {
    const unsigned warps = threads_ / kLanes;
    for (unsigned i = 0; i < warps; ++i) part(HostWarp(is_reversed()), is_reversed() ? warps - 1 - i : i);
  }

 private:
  bool is_reversed() const { return number_ % 2 != 0; }

  unsigned number_, count_, threads_;
};

// Runs kernel(block, shared) for all blocks at the same time.
template <typename Shared, typename Kernel>
void run_on_host(unsigned blocks, unsigned threads, const Kernel& kernel) {
  std::vector<std::jthread> running;
  for (unsigned number = 0; number < blocks; ++number) {
    running.emplace_back([&kernel, number, blocks, threads] {
      // What is there before the kernel is not zero on a GPU either.
      const auto shared = std::make_unique<Shared>();
      std::memset(shared.get(), 0xA5, sizeof(Shared));
      kernel(HostBlock(number, blocks, threads), *shared);
    });
  }
}

}  // namespace tzmark::gpu
