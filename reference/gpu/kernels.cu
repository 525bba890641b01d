// The entry points of the kernels, which the headers implement.
#include "gpu/crc32.h"
#include "gpu/secretbox_kernel.h"

namespace tzmark::gpu {
namespace {

// The thread block of a GPU.
struct GpuBlock {
  __device__ unsigned number() const { return blockIdx.x; }
  __device__ unsigned count() const { return gridDim.x; }
  template <typename Step>
  __device__ void each(Step&& step) const {
    step(threadIdx.x);
    __syncthreads();
  }
};

}  // namespace
}  // namespace tzmark::gpu

extern "C" {

// The minimal number of blocks per SM: 2 * 512 or 4 * 256 threads leave 64 registers to each.
__global__ void __launch_bounds__(tzmark::gpu::kCrc32Threads, 2)
    tzmark_crc32(const __grid_constant__ tzmark::gpu::Crc32Arguments arguments) {
  __shared__ tzmark::gpu::Crc32Shared shared;
  tzmark::gpu::crc32_kernel(tzmark::gpu::GpuBlock{}, shared, arguments);
}

__global__ void __launch_bounds__(tzmark::gpu::kSecretboxThreads, 4)
    tzmark_secretbox(const __grid_constant__ tzmark::gpu::SecretboxArguments arguments) {
  __shared__ tzmark::gpu::SecretboxShared shared;
  tzmark::gpu::secretbox_kernel(tzmark::gpu::GpuBlock{}, shared, arguments);
}

}  // extern "C"
