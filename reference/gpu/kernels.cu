// The entry points of the kernels, which the headers implement.
#include "gpu/crc32_matrix.h"
#include "gpu/crc32_tables.h"
#include "gpu/read_kernel.h"
#include "gpu/secretbox_kernel.h"

namespace tzmark::gpu {
namespace {

// A warp of the GPU.
struct GpuWarp {
  template <typename Step>
  __device__ void each(Step&& step) const {
    step(threadIdx.x % kLanes);
  }
  __device__ void sync() const { __syncwarp(); }
  template <typename From>
  __device__ void exchange(PerLane<std::uint32_t>& value, From&& from) const {
    const unsigned lane = threadIdx.x % kLanes;
    value[lane] = __shfl_sync(0xFFFFFFFF, value[lane], static_cast<int>(from(lane)));
  }
  __device__ std::uint32_t of_first_lane(const PerLane<std::uint32_t>& value) const {
    return __shfl_sync(0xFFFFFFFF, value[0], 0);
  }
  __device__ void add_products(PerLane<BitCounts>& counts, const PerLane<Words>& rows,
                               const PerLane<BitColumn>& columns) const {
    std::uint32_t(&count)[4] = counts[0].count;
    const std::uint32_t(&row)[4] = rows[0].word;
    const std::uint32_t(&column)[2] = columns[0].word;
    asm volatile(
        "mma.sync.aligned.m16n8k256.row.col.s32.b1.b1.s32.and.popc "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(count[0]), "+r"(count[1]), "+r"(count[2]), "+r"(count[3])
        : "r"(row[0]), "r"(row[1]), "r"(row[2]), "r"(row[3]), "r"(column[0]), "r"(column[1]));
  }
};

// The thread block of a GPU.
struct GpuBlock {
  __device__ unsigned number() const { return blockIdx.x; }
  __device__ unsigned count() const { return gridDim.x; }
  template <typename Step>
  __device__ void each(Step&& step) const {
    step(threadIdx.x);
    __syncthreads();
  }
  template <typename Part>
  __device__ void each_warp(Part&& part) const {
    part(GpuWarp{}, threadIdx.x / kLanes);
    __syncthreads();
  }
};

}  // namespace
}  // namespace tzmark::gpu

extern "C" {

// The minimal number of blocks per SM leaves each thread so many registers: 512 threads 128, 2 * 512 or 4 * 256 64,
// 2 * 256 128.
__global__ void __launch_bounds__(tzmark::gpu::kCrc32TablesThreads, 2)
    tzmark_crc32_tables(const __grid_constant__ tzmark::gpu::Crc32TablesArguments arguments) {
  __shared__ tzmark::gpu::Crc32TablesShared shared;
  tzmark::gpu::crc32_tables_kernel(tzmark::gpu::GpuBlock{}, shared, arguments);
}

__global__ void __launch_bounds__(tzmark::gpu::kCrc32MatrixThreads, 1)
    tzmark_crc32_matrix(const __grid_constant__ tzmark::gpu::Crc32MatrixArguments arguments) {
  // More than the 48 KiB that a kernel may declare.
  extern __shared__ __align__(16) unsigned char shared[];
  tzmark::gpu::crc32_matrix_kernel(tzmark::gpu::GpuBlock{}, *reinterpret_cast<tzmark::gpu::Crc32MatrixShared*>(shared),
                                   arguments);
}

__global__ void __launch_bounds__(tzmark::gpu::kSecretboxThreads, 2)
    tzmark_secretbox_keys(const __grid_constant__ tzmark::gpu::SecretboxArguments arguments) {
  tzmark::gpu::secretbox_keys_kernel(tzmark::gpu::GpuBlock{}, arguments);
}

__global__ void __launch_bounds__(tzmark::gpu::kSecretboxThreads, 2)
    tzmark_secretbox_macs(const __grid_constant__ tzmark::gpu::SecretboxArguments arguments) {
  tzmark::gpu::secretbox_macs_kernel(tzmark::gpu::GpuBlock{}, arguments);
}

__global__ void __launch_bounds__(tzmark::gpu::kSecretboxThreads, 2)
    tzmark_secretbox_verdicts(const __grid_constant__ tzmark::gpu::SecretboxArguments arguments) {
  tzmark::gpu::secretbox_verdicts_kernel(tzmark::gpu::GpuBlock{}, arguments);
}

__global__ void __launch_bounds__(tzmark::gpu::kSecretboxThreads, 2)
    tzmark_secretbox_open(const __grid_constant__ tzmark::gpu::SecretboxArguments arguments) {
  __shared__ tzmark::gpu::SecretboxShared shared;
  tzmark::gpu::secretbox_open_kernel(tzmark::gpu::GpuBlock{}, shared, arguments);
}

__global__ void __launch_bounds__(tzmark::gpu::kReadThreads, 2)
    tzmark_read(const __grid_constant__ tzmark::gpu::ReadArguments arguments) {
  tzmark::gpu::read_kernel(tzmark::gpu::GpuBlock{}, arguments);
}

}  // extern "C"
