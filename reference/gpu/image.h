// The kernels as the GPU's driver takes them: machine code for some GPUs, and PTX for those that come later.
#pragma once

#include <cstddef>
#include <span>

namespace tzmark::gpu {

// Empty in a build without kernels.
std::span<const std::byte> image();

}  // namespace tzmark::gpu
