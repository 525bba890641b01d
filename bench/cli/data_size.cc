// Divides what the limit leaves; see data_size.h.
#include "cli/data_size.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kMebibyte = 1 << 20;
// Of the process itself and of the buffers of transfers.
constexpr std::uint64_t kFixedBytes = 32 * kMebibyte;
// Parts of the limit that go to the working sets of the ceilings.
constexpr std::uint64_t kCeilingsPart = 4;

std::uint64_t mebibytes(std::uint64_t bytes) { return (bytes + kMebibyte - 1) / kMebibyte; }

}  // namespace

std::string limit_text(const CgroupLimits& limits) {
  return fmt::format("a cgroup limits memory to {} MiB, of which {} MiB are left", *limits.memory_bytes / kMebibyte,
                     limits.memory_left_bytes.value_or(*limits.memory_bytes) / kMebibyte);
}

DataSize data_size(std::uint64_t given_bytes, std::uint64_t default_bytes, const DataCopies& copies,
                   const CgroupLimits& limits) {
  const std::uint64_t wanted = given_bytes != 0 ? given_bytes : default_bytes;
  if (!limits.memory_bytes) return {wanted};
  const std::uint64_t left = limits.memory_left_bytes.value_or(*limits.memory_bytes);
  const std::uint64_t fixed_bytes = kFixedBytes + *limits.memory_bytes / kCeilingsPart;
  const std::uint64_t for_data = left - std::min(left, fixed_bytes);
  const std::uint64_t fits = for_data / copies.comfortable;
  const std::uint64_t fitting_bytes = fits < kMebibyte ? 0 : std::bit_floor(fits / kMebibyte) * kMebibyte;
  if (given_bytes == 0 && wanted <= fits) return {wanted};
  if (given_bytes == 0 && fitting_bytes != 0) {
    return {fitting_bytes, fmt::format("{} MiB of data instead of {} MiB: {}", fitting_bytes / kMebibyte,
                                       wanted / kMebibyte, limit_text(limits))};
  }
  const std::uint64_t needed_bytes = fixed_bytes + copies.needed * std::max(wanted, kMebibyte);
  if (given_bytes != 0 && needed_bytes <= left) return {wanted};
  const std::uint64_t least_bytes = given_bytes != 0 ? needed_bytes : fixed_bytes + copies.comfortable * kMebibyte;
  const std::string advice = fitting_bytes != 0 ? fmt::format("use --scale {}MiB or less", fitting_bytes / kMebibyte)
                                                : std::string("raise the limit");
  throw Error(ErrorCode::kResource,
              fmt::format("{}, and {} MiB of data need about {} MiB: {}", limit_text(limits),
                          mebibytes(given_bytes != 0 ? wanted : kMebibyte), mebibytes(least_bytes), advice));
}

}  // namespace tzmark::bench
