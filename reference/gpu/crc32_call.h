// CRC32 on the GPU by either kernel, for crc32_on_device, which takes the faster one, and for tests of both.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "tzmark/buffer.h"

namespace tzmark::gpu {

enum class Crc32Method : std::uint8_t { kTables, kMatrix };

// As crc32_on_device. REQUIRES: kTables, or Kernels::of(device).has_crc32_matrix().
std::vector<std::uint32_t> crc32_by(Crc32Method method, int device, std::span<const ConstBuffer> ranges,
                                    std::chrono::nanoseconds* kernel_time = nullptr);

}  // namespace tzmark::gpu
