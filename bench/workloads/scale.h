// Shrinks the tensor list of a model so that it fits.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/workload.h"

namespace tzmark::bench {

// The largest list of at most bytes_max bytes that one common factor on all dimensions gives; the list itself if it
// fits as it is. Dimensions below 16 stay: they are kernels, image channels and experts, not sizes. No dimension falls
// below 1, and no tensor is left out.
// Throws kUsage if even dimensions of 1 are too large.
std::vector<TensorShape> scale_to_fit(const std::vector<TensorShape>& tensors, std::uint64_t bytes_max);

}  // namespace tzmark::bench
