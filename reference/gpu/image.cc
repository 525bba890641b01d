// The kernels as compiled by nvcc. TZMARK_GPU_IMAGE is the file that contains them.
#include "gpu/image.h"

// The assembler includes the file, which C++20 cannot.
asm(R"(
  .pushsection .rodata
  .balign 16
  .local tzmark_gpu_image_begin
  .local tzmark_gpu_image_end
tzmark_gpu_image_begin:
  .incbin ")" TZMARK_GPU_IMAGE R"("
tzmark_gpu_image_end:
  .byte 0
  .popsection
)");

extern "C" const std::byte tzmark_gpu_image_begin[], tzmark_gpu_image_end[];

namespace tzmark::gpu {

std::span<const std::byte> image() { return {tzmark_gpu_image_begin, tzmark_gpu_image_end}; }

}  // namespace tzmark::gpu
