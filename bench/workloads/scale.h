// Scales the tensor list of a model down.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/workload.h"

namespace tzmark::bench {

// Returns the largest list of at most bytes_max bytes that a common factor on all dimensions gives; the unchanged list
// if it fits. Dimensions below 16 stay, because they count kernels, image channels or experts. No dimension becomes 0,
// and no tensor is left out. Throws kUsage if even dimensions of 1 are too large.
std::vector<TensorShape> scale_to_fit(const std::vector<TensorShape>& tensors, std::uint64_t bytes_max);

}  // namespace tzmark::bench
