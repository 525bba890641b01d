// A single tensor: slow for readers that distribute work by tensors.
#include <fmt/format.h>

#include "tzmark/error.h"
#include "workloads/scenario.h"

namespace tzmark::bench {
namespace {

std::vector<TensorShape> tensors(std::uint64_t bytes) {
  if (bytes < 2) throw Error(ErrorCode::kUsage, fmt::format("one-huge needs at least 2 bytes, not {}", bytes));
  TensorList list("bfloat16");
  list.add("weight", {bytes / 2});
  return list.take();
}

}  // namespace

Scenario one_huge_scenario() {
  return {{"one-huge", "one bfloat16 tensor of any size"}, nullptr, tensors, std::uint64_t{1} << 30};
}

}  // namespace tzmark::bench
