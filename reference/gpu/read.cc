// Reading GPU memory, for measurements.
#include "bytes/requires.h"
#include "gpu/read_kernel.h"
#include "gpu/work.h"
#include "tzmark/device_compute.h"

namespace tzmark {

void read_on_device(ConstBuffer memory, std::chrono::nanoseconds* kernel_time) {
  constexpr unsigned kBlocksPerProcessor = 2;
  const int device = gpu::device_of_all({&memory, 1});
  const std::uint64_t address = device_address(memory.data), tiles = memory.size / gpu::kReadTileBytes;
  TZMARK_REQUIRES(address % sizeof(gpu::Words) == 0);
  gpu::Work work(device, sizeof(std::uint32_t), sizeof(std::uint32_t), kernel_time);
  if (tiles == 0) return;
  const gpu::Kernels& kernels = gpu::Kernels::of(device);
  work.launch(kernels.read(), std::min<std::uint64_t>(tiles, std::uint64_t{kernels.processors()} * kBlocksPerProcessor),
              gpu::ReadArguments{address, tiles, work.pointer<std::uint32_t>(0)});
  work.finish();
}

}  // namespace tzmark
