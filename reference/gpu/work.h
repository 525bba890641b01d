// One call's work on the GPU: a stream, and scratch memory that is wiped at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bytes/requires.h"
#include "io/cuda.h"
#include "tzmark/device_memory.h"

namespace tzmark::gpu {

// The kernels, loaded at the first call and then as they are for as long as the process lives. Thread-safe.
class Kernels {
 public:
  static const Kernels& instance();

  // Empty if kernels can be launched. The rest REQUIRES that.
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

// For the thread that makes it. What is started is done in order, and surely done after finish(). Host memory that is
// copied from or to has to live as long as the object. Calls throw TZE-ENV-006; the constructor also TZE-AVL-001 if
// there are no kernels.
class Work {
 public:
  explicit Work(std::size_t scratch_bytes);
  // Whatever became of it: waits, and leaves nothing in the scratch memory.
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // A place in the scratch memory.
  std::uint64_t address(std::size_t offset) const;
  template <typename T>
  T* pointer(std::size_t offset) const {
    return reinterpret_cast<T*>(address(offset));
  }
  void upload(std::size_t offset, std::span<const std::byte> from);
  void clear(std::size_t offset, std::size_t bytes);
  // arguments: of the type that the kernel takes. REQUIRES: blocks > 0.
  template <typename Arguments>
  void launch(void* kernel, unsigned blocks, unsigned threads, Arguments arguments) {
    TZMARK_REQUIRES(blocks > 0);
    launch_with(kernel, blocks, threads, &arguments);
  }
  void download(std::span<std::byte> to, std::size_t offset);
  // Wipes the scratch memory, and waits for all.
  void finish();

 private:
  void launch_with(void* kernel, unsigned blocks, unsigned threads, void* arguments);

  DeviceMemory scratch_;
  CudaStream stream_;
  bool finished_ = false;
};

// The next place for something behind so many bytes of scratch memory.
constexpr std::size_t next_place(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace tzmark::gpu
