// Limits of one command; see limits.h.
#include "runner/limits.h"

namespace tzmark::conformance {

Limits limits_for_file(std::uint64_t file_bytes, bool derives_keys) {
  constexpr std::uint64_t kMiB = 1 << 20;
  constexpr std::uint64_t kDerivationBytes = 1024 * kMiB;
  constexpr std::chrono::seconds kDerivationsMax(60);
  Limits limits{.elapsed_max = std::chrono::seconds(10 + file_bytes / (10 * kMiB)),
                .memory_max_bytes = 64 * kMiB + 16 * file_bytes};
  if (!derives_keys) return limits;
  limits.elapsed_max += kDerivationsMax;
  limits.memory_max_bytes += kDerivationBytes;
  return limits;
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
