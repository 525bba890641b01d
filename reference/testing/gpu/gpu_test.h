// For tests of kernels: whether they run on a GPU or on the stand-in of libcuda, and device memory to run them on.
//
// Without TZMARK_TEST_ON_GPU it is the stand-in, which the main function chooses before anything is loaded.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

#include "gpu/work.h"
#include "io/pinned_pool.h"
#include "testing/files/test_directory.h"
#include "testing/gpu/fake.h"
#include "tzmark/device_compute.h"
#include "tzmark/device_memory.h"

namespace tzmark::test {

inline bool on_gpu() { return std::getenv("TZMARK_TEST_ON_GPU") != nullptr; }

// A function of the stand-in of libcuda.
template <typename Function>
Function* of_fake(const char* name) {
  static void* const library = ::dlopen(TZMARK_FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  void* const symbol = library == nullptr ? nullptr : ::dlsym(library, name);
  if (symbol == nullptr) throw std::runtime_error(::dlerror());
  return reinterpret_cast<Function*>(symbol);
}

inline FakeCudaOrders& fake_orders() {
  static FakeCudaOrders* const orders = of_fake<FakeCudaOrders*()>("tzmark_fake_cuda_orders")();
  return *orders;
}
inline std::size_t fake_pinned_bytes() { return of_fake<std::size_t()>("tzmark_fake_pinned_bytes")(); }

// The message of an error of a call that the stand-in refuses.
inline constexpr const char* kRefusedCall =
    "^(cu[A-Z][A-Za-z0-9]+|pinning [0-9]+ bytes|[0-9]+ bytes of GPU memory): CUDA_ERROR_OUT_OF_MEMORY \\(2\\)$";

// Frees what calls keep for later ones.
inline void free_kept() {
  gpu::Workspaces::instance().clear();
  PinnedPool::instance().clear();
}

inline DeviceMemory on_device(const Bytes& content) {
  DeviceMemory memory(content.size());
  memory.copy_from_host(0, content);
  return memory;
}

inline Bytes on_host(const DeviceMemory& memory) {
  Bytes content(memory.buffer().size);
  memory.copy_to_host(0, content);
  return content;
}

}  // namespace tzmark::test
