// Rates of the single steps of loading a file into GPU memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tzmark/device_memory.h"

namespace tzmark::bench {

enum class GpuRung : std::uint8_t {
  kCopy,             // from pinned host memory, 64 MiB each
  kFill,             // writes GPU memory once: the bandwidth of that memory
  kRead,             // reads GPU memory once, by a kernel that computes nothing; time of the kernel
  kCrc32,            // tzmark/device_compute.h, as in the codec: ranges of 2 MiB, all in one call
  kCrc32Kernel,      // the same, time of the kernel alone
  kSecretbox,        // tzmark/device_compute.h: messages of 2 MiB, verified and decrypted in place, all in one call
  kSecretboxKernel,  // the same, time of the kernels alone
};

// The name in the result document: "host-to-device", "gpu-memory", "gpu-memory-read", "gpu-crc32", "gpu-crc32-kernel",
// "gpu-secretbox", "gpu-secretbox-kernel".
std::string_view rung_name(GpuRung rung);
// Whether the rung needs kernels.
bool needs_kernels(GpuRung rung);
// The bytes of each copy, range or message of a rung with this working set.
std::size_t piece_bytes(GpuRung rung, std::size_t working_set_bytes);

// Larger than the caches of a large GPU.
inline constexpr std::size_t kGpuWorkingSetBytes = std::size_t{1} << 30;

// Measures bytes per second: repeats the step over the working set for about `time`, and at least once.
// REQUIRES: working_set_bytes > 0. Errors: TZE-AVL-001 without a GPU, or without kernels for what needs them;
// TZE-ENV-006 if memory is short.
double measure_rate(GpuRung rung, std::chrono::nanoseconds time, std::size_t working_set_bytes = kGpuWorkingSetBytes);

// Fills GPU memory with random bytes, because a GPU that reads zeros needs less power and may have a faster clock.
void fill_with_data(DeviceMemory& memory);

}  // namespace tzmark::bench
