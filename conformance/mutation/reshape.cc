// Another shape for a tensor; see reshape.h.
#include "mutation/reshape.h"

#include <algorithm>
#include <utility>

#include "model/dtypes.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::uint64_t kFilledMaxBytes = 1 << 20;

// Modulo 2^64: where that is not the number of bytes there is no data to fit either.
std::uint64_t nominal_bytes(const std::vector<std::uint64_t>& shape, const std::string& dtype) {
  std::uint64_t bytes = model::dtype_of(dtype).item_bytes;
  for (const std::uint64_t dim : shape) bytes *= dim;
  return bytes;
}

}  // namespace

void reshape(DraftTensor& tensor, std::vector<std::uint64_t> shape, std::string dtype) {
  const std::uint64_t had_bytes = tensor.data.bytes.size();
  const std::uint64_t excess_bytes = had_bytes - nominal_bytes(tensor.shape, tensor.dtype);
  const std::uint64_t needed_bytes = nominal_bytes(shape, dtype) + excess_bytes;
  tensor.shape = std::move(shape);
  tensor.dtype = std::move(dtype);
  if (had_bytes == 0) return;
  if (needed_bytes <= had_bytes) {
    tensor.data = tensor.data.first(needed_bytes);
  } else if (needed_bytes <= kFilledMaxBytes) {
    std::vector<std::byte> filled(tensor.data.bytes.begin(), tensor.data.bytes.end());
    filled.resize(needed_bytes);
    tensor.data = slice_of(std::move(filled));
  }
}

void reshape_to_least(DraftTensor& tensor) {
  const bool empty = std::ranges::find(tensor.shape, 0) != tensor.shape.end();
  if (model::dtype_of(tensor.dtype).item_bytes == 0) {
    tensor.data = tensor.data.first(std::min<std::size_t>(tensor.data.bytes.size(), 1));
    return;
  }
  reshape(tensor, {empty ? 0u : 1u}, tensor.dtype);
}

}  // namespace tzmark::conformance::mutation
