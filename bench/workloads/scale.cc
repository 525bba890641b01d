// Finds the common factor by bisection; see scale.h.
#include "workloads/scale.h"

#include <fmt/format.h>

#include <algorithm>

#include "tzmark/dtype.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kStructureMax = 16;

// The factor is a fraction of 2^32, so that the result is equal on every machine. Dimensions are far below 2^31.
constexpr unsigned kFactorBits = 32;

std::uint64_t scaled(std::uint64_t dimension, std::uint64_t factor) {
  if (dimension < kStructureMax) return dimension;
  return std::max<std::uint64_t>(1, (dimension * factor) >> kFactorBits);
}

std::uint64_t scaled_bytes(const std::vector<TensorShape>& tensors, const std::vector<std::uint64_t>& item_bytes,
                           std::uint64_t factor) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::uint64_t bytes = item_bytes[i];
    for (const std::uint64_t dimension : tensors[i].shape) bytes *= scaled(dimension, factor);
    sum += bytes;
  }
  return sum;
}

}  // namespace

std::vector<TensorShape> scale_to_fit(const std::vector<TensorShape>& tensors, std::uint64_t bytes_max) {
  std::vector<std::uint64_t> item_bytes;
  for (const TensorShape& tensor : tensors) item_bytes.push_back(dtype_from_name(tensor.dtype).item_bytes);
  const auto bytes_at = [&](std::uint64_t factor) { return scaled_bytes(tensors, item_bytes, factor); };

  constexpr std::uint64_t kWhole = std::uint64_t{1} << kFactorBits;
  if (bytes_at(kWhole) <= bytes_max) return tensors;
  if (const std::uint64_t least = bytes_at(0); least > bytes_max) {
    throw Error(ErrorCode::kUsage, fmt::format("the workload needs at least {} bytes, not {}", least, bytes_max));
  }
  std::uint64_t fits = 0;
  for (std::uint64_t too_large = kWhole; too_large - fits > 1;) {
    const std::uint64_t middle = fits + (too_large - fits) / 2;
    (bytes_at(middle) <= bytes_max ? fits : too_large) = middle;
  }
  std::vector<TensorShape> result = tensors;
  for (TensorShape& tensor : result) {
    for (std::uint64_t& dimension : tensor.shape) dimension = scaled(dimension, fits);
  }
  return result;
}

}  // namespace tzmark::bench
