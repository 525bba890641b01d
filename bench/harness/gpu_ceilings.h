// How fast this machine's GPU does the single steps of loading a file into its memory.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tzmark::bench {

enum class GpuRung : std::uint8_t {
  kCopy,       // from pinned host memory
  kFill,       // of GPU memory, which is written once: how fast that memory is
  kCrc32,      // tzmark/device_compute.h, as the codec: of parts of 2 MiB
  kSecretbox,  // tzmark/device_compute.h, as the codec: messages of 2 MiB, checked and opened in place
};

// As the result document calls it: "host-to-device", "gpu-memory", "gpu-crc32", "gpu-secretbox".
std::string_view rung_name(GpuRung rung);

// More than the caches of a large GPU hold.
inline constexpr std::size_t kGpuWorkingSetBytes = std::size_t{1} << 30;

// Bytes per second, over and over the working set for about `time`, and once at least. REQUIRES: working_set_bytes > 0.
// Errors: TZE-AVL-001 without a GPU, or without kernels for the last two; TZE-ENV-006 if there is not enough memory.
double measure_rate(GpuRung rung, std::chrono::nanoseconds time, std::size_t working_set_bytes = kGpuWorkingSetBytes);

}  // namespace tzmark::bench
