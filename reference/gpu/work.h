// The GPU work of one call: a stream, and scratch memory that is wiped at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bytes/requires.h"
#include "io/cuda.h"
#include "tzmark/device_memory.h"

namespace tzmark::gpu {

// The kernels, which the first call loads for the life of the process. Thread-safe.
class Kernels {
 public:
  static const Kernels& instance();

  // The reason why kernels cannot be launched; empty if they can. The rest REQUIRES that it is empty.
  const std::string& why_unavailable() const { return why_unavailable_; }
  void* crc32() const { return crc32_; }
  void* secretbox() const { return secretbox_; }
  // Multiprocessors of the GPU.
  unsigned processors() const { return processors_; }

 private:
  Kernels();
  std::string load();

  void* crc32_ = nullptr;
  void* secretbox_ = nullptr;
  unsigned processors_ = 0;
  std::string why_unavailable_;
};

// For the thread that creates it. Operations run in order, and are complete after finish(). Host memory of copies must
// outlive the object. Calls throw TZE-ENV-006; the constructor also throws TZE-AVL-001 if there are no kernels.
class Work {
 public:
  explicit Work(std::size_t scratch_bytes);
  // Waits, and wipes the scratch memory, even after an error.
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // The device address of an offset in the scratch memory.
  std::uint64_t address(std::size_t offset) const;
  template <typename T>
  T* pointer(std::size_t offset) const {
    return reinterpret_cast<T*>(address(offset));
  }
  void upload(std::size_t offset, std::span<const std::byte> from);
  void clear(std::size_t offset, std::size_t bytes);
  // arguments: of the type that the kernel expects. REQUIRES: blocks > 0.
  template <typename Arguments>
  void launch(void* kernel, unsigned blocks, unsigned threads, Arguments arguments) {
    TZMARK_REQUIRES(blocks > 0);
    launch_with(kernel, blocks, threads, &arguments);
  }
  void download(std::span<std::byte> to, std::size_t offset);
  // Wipes the scratch memory, and blocks until all operations are complete.
  void finish();

 private:
  void launch_with(void* kernel, unsigned blocks, unsigned threads, void* arguments);

  DeviceMemory scratch_;
  CudaStream stream_;
  bool finished_ = false;
};

// Rounds an offset in the scratch memory up to the alignment of the next allocation.
constexpr std::size_t next_place(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace tzmark::gpu
