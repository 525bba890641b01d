// DLPack capsules of tensors in host memory.
#pragma once

#include "memory.h"

namespace tzmark::py {

// A capsule "dltensor" that keeps the memory alive until its consumer deletes it. Throws Error kUsage for a type that
// DLPack lacks, and for a tensor that is broadcast.
Ref make_dlpack(const TensorMemory& memory);

// (kDLCPU, 0)
Ref dlpack_device();

}  // namespace tzmark::py
