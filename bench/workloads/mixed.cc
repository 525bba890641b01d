// A few large tensors, some of medium size and many tiny ones in random order: the sizes of a checkpoint with optimizer
// and adapters, for which no single strategy per tensor is best.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tzmark/error.h"
#include "workloads/random_sizes.h"
#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kLeastBytes = std::uint64_t{1} << 20;

struct Sizes {
  std::uint64_t low_bytes;
  std::uint64_t high_bytes;
  // Share of all bytes, limited so that a file of a terabyte does not have a hundred million tensors.
  std::uint64_t percent;
  std::uint64_t bytes_max;
};
constexpr Sizes kTiny = {64, 16 << 10, 5, std::uint64_t{64} << 20};
constexpr Sizes kMiddle = {128 << 10, 4 << 20, 25, std::uint64_t{4} << 30};
constexpr std::uint64_t kLargeCount = 4;

// Adds tensors of these sizes and returns their total bytes.
std::uint64_t add(TensorList& list, const char* name, const Sizes& sizes, std::uint64_t of_bytes, RandomSizes& random) {
  const std::uint64_t share_bytes = std::min(of_bytes / 100 * sizes.percent, sizes.bytes_max);
  std::uint64_t left_bytes = share_bytes;
  for (std::uint64_t i = 0;; ++i) {
    const std::uint64_t tensor_bytes = random.next(sizes.low_bytes, sizes.high_bytes);
    if (tensor_bytes > left_bytes) return share_bytes - left_bytes;
    list.add(fmt::format("{}.{}.weight", name, i), {tensor_bytes / 4});
    left_bytes -= tensor_bytes;
  }
}

std::vector<TensorShape> tensors(std::uint64_t bytes) {
  if (bytes < kLeastBytes) {
    throw Error(ErrorCode::kUsage, fmt::format("mixed needs at least {} bytes, not {}", kLeastBytes, bytes));
  }
  RandomSizes random(2);
  TensorList list("float32");
  std::uint64_t left_bytes = bytes;
  left_bytes -= add(list, "tiny", kTiny, bytes, random);
  left_bytes -= add(list, "middle", kMiddle, bytes, random);
  for (std::uint64_t i = kLargeCount; i > 0; --i) {
    // Each takes half of the rest, the last one all of it.
    const std::uint64_t tensor_bytes = i == 1 ? left_bytes : left_bytes / 2 / 4 * 4;
    list.add(fmt::format("large.{}.weight", kLargeCount - i), {tensor_bytes / 4});
    left_bytes -= tensor_bytes;
  }
  std::vector<TensorShape> tensors = list.take();
  // Not std::shuffle, whose order depends on the standard library.
  for (std::size_t i = tensors.size(); i > 1; --i) std::swap(tensors[i - 1], tensors[random.below(i)]);
  return tensors;
}

}  // namespace

Scenario mixed_scenario() {
  return {{"mixed", "few large float32 tensors, some middle, many tiny"}, nullptr, tensors, std::uint64_t{1} << 30};
}

}  // namespace tzmark::bench
