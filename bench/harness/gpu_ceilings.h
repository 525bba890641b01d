// Rates of the single steps of loading a file into GPU memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tzmark::bench {

enum class GpuRung : std::uint8_t {
  kCopy,       // from pinned host memory
  kFill,       // writes GPU memory once: the bandwidth of that memory
  kCrc32,      // tzmark/device_compute.h, as in the codec: ranges of 2 MiB
  kSecretbox,  // tzmark/device_compute.h, as in the codec: messages of 2 MiB, verified and decrypted in place
};

// The name in the result document: "host-to-device", "gpu-memory", "gpu-crc32", "gpu-secretbox".
std::string_view rung_name(GpuRung rung);

// Larger than the caches of a large GPU.
inline constexpr std::size_t kGpuWorkingSetBytes = std::size_t{1} << 30;

// Measures bytes per second: repeats the step over the working set for about `time`, and at least once.
// REQUIRES: working_set_bytes > 0. Errors: TZE-AVL-001 without a GPU, or without kernels for the last two; TZE-ENV-006
// if memory is short.
double measure_rate(GpuRung rung, std::chrono::nanoseconds time, std::size_t working_set_bytes = kGpuWorkingSetBytes);

}  // namespace tzmark::bench
