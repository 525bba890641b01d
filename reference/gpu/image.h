// The kernels as the driver loads them: machine code for some GPUs, and PTX for later ones.
#pragma once

#include <cstddef>
#include <span>

namespace tzmark::gpu {

// Empty in a build without kernels.
std::span<const std::byte> image();

}  // namespace tzmark::gpu
