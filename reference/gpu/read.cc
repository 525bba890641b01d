// Reading GPU memory, for measurements.
#include <algorithm>

#include "bytes/requires.h"
#include "gpu/read_kernel.h"
#include "gpu/work.h"
#include "tzmark/device_compute.h"

namespace tzmark {

void read_on_device(ConstBuffer memory, std::chrono::nanoseconds* kernel_time) {
  constexpr unsigned kBlocksPerProcessor = 2;
  const int device = gpu::device_of_all({&memory, 1});
  const std::uint64_t address = device_address(memory.data), words = memory.size / sizeof(gpu::Words);
  TZMARK_REQUIRES(address % sizeof(gpu::Words) == 0);
  gpu::Work work(device, sizeof(std::uint32_t), sizeof(std::uint32_t), kernel_time);
  if (words == 0) return;
  const gpu::Kernels& kernels = gpu::Kernels::of(device);
  constexpr std::uint64_t kTileWords = gpu::kReadTileBytes / sizeof(gpu::Words);
  const std::uint64_t blocks_max = std::uint64_t{kernels.processors()} * kBlocksPerProcessor;
  work.launch(kernels.read(), std::clamp<std::uint64_t>(words / kTileWords, 1, blocks_max),
              gpu::ReadArguments{address, words / kTileWords, words % kTileWords, work.pointer<std::uint32_t>(0)});
  work.finish();
}

}  // namespace tzmark
