// Many tensors of 64 bytes to 16 KiB: shows the cost per tensor.
#include <fmt/format.h>

#include <algorithm>

#include "tzmark/error.h"
#include "workloads/random_sizes.h"
#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kLowBytes = 64;
constexpr std::uint64_t kHighBytes = 16 << 10;
// Two million tensors, more than any model has; the list itself takes memory.
constexpr std::uint64_t kBytesMax = std::uint64_t{16} << 30;

std::vector<TensorShape> tensors(std::uint64_t bytes) {
  if (bytes < kLowBytes || bytes > kBytesMax) {
    throw Error(ErrorCode::kUsage,
                fmt::format("many-tiny has from {} to {} bytes, not {}", kLowBytes, kBytesMax, bytes));
  }
  RandomSizes sizes(1);
  TensorList list("float32");
  // The last tensor takes the rest; less than the smallest size is left out.
  for (std::uint64_t i = 0; bytes >= kLowBytes; ++i) {
    const std::uint64_t tensor_bytes = std::min(sizes.next(kLowBytes, kHighBytes), bytes);
    list.add(fmt::format("model.layers.{}.adapters.{}.weight", i / 64, i % 64), {tensor_bytes / 4});
    bytes -= tensor_bytes;
  }
  return list.take();
}

}  // namespace

Scenario many_tiny_scenario() {
  return {{"many-tiny", "float32 tensors of 64 bytes to 16 KiB"}, nullptr, tensors, std::uint64_t{64} << 20};
}

}  // namespace tzmark::bench
