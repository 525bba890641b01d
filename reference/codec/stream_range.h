// The check that a TensorStream makes before it reads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tzmark {

// Throws kUsage unless the range lies inside a tensor of that many bytes.
void check_range(std::uint64_t offset, std::size_t bytes, std::uint64_t tensor_bytes);

}  // namespace tzmark
