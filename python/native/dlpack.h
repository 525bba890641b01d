// DLPack capsules of tensors in memory of the host or of a GPU.
#pragma once

#include "memory.h"

namespace tzmark::py {

// A capsule "dltensor" that keeps the memory alive until its consumer deletes it. Throws Error kUsage for a type that
// DLPack lacks, and for a tensor that is broadcast.
Ref make_dlpack(const TensorMemory& memory);

// (kDLCPU, 0), or (kDLCUDA, number of the GPU)
Ref dlpack_device(const TensorMemory& memory);

}  // namespace tzmark::py
