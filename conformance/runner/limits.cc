// Limits of one command; see limits.h.
#include "runner/limits.h"

namespace tzmark::conformance {
namespace {

constexpr std::uint64_t kBytesPerSecond = 10 << 20;
constexpr std::uint64_t kMemoryLeastBytes = 64 << 20;
constexpr std::uint64_t kMemoryFactor = 8;

}  // namespace

Limits limits_for_file(std::uint64_t file_bytes) {
  return {.elapsed_max = std::chrono::seconds(10 + file_bytes / kBytesPerSecond),
          .memory_max_bytes = kMemoryLeastBytes + kMemoryFactor * file_bytes};
}

Limits LimitOverrides::over(const Limits& own) const {
  Limits limits = own;
  limits.elapsed_max = elapsed_max.value_or(own.elapsed_max);
  limits.memory_max_bytes = memory_max_bytes.value_or(own.memory_max_bytes);
  return limits;
}

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

double seconds_of(std::chrono::nanoseconds elapsed) { return std::chrono::duration<double>(elapsed).count(); }

}  // namespace tzmark::conformance
