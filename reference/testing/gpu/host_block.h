// For tests: runs kernels on the host, step by step, with the arithmetic that the GPU runs.
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "gpu/kernel.h"

namespace tzmark::gpu {

// A block whose threads take each step one after the other: in every second block the last one first, so that a step
// which depends on what another thread does in the same step gives two results.
class HostBlock {
 public:
  HostBlock(unsigned number, unsigned count, unsigned threads) : number_(number), count_(count), threads_(threads) {}

  unsigned number() const { return number_; }
  unsigned count() const { return count_; }
  template <typename Step>
  void each(Step&& step) const {
    for (unsigned i = 0; i < threads_; ++i) step(number_ % 2 == 0 ? i : threads_ - 1 - i);
  }

 private:
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
