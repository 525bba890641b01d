// Memory of GPUs, host memory that is pinned for them, and copies between the two.
//
// GPUs have the numbers of CUDA, from 0, which CUDA_VISIBLE_DEVICES changes. Calls use the primary context of the GPU
// that the memory is of, which the CUDA runtime and PyTorch use too; the thread's context is the same afterwards.
// Thread-safety: an object has one owner at a time; the memory that it owns may be used from any threads. The free
// functions are thread-safe.
// Errors: TZE-AVL-001 without a usable GPU; TZE-ENV-006 if memory cannot be allocated or pinned, or a copy fails.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tzmark/buffer.h"

namespace tzmark {

// Owns GPU memory. Move-only.
class DeviceMemory {
 public:
  // The reason why there is no usable GPU; empty if there is one.
  static std::string why_unavailable();

  explicit DeviceMemory(std::size_t bytes, int device = 0);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  // The whole memory, of kind kDevice; valid as long as this object.
  MutableBuffer buffer() const;
  int device() const { return device_; }

  // Block until the bytes are copied. REQUIRES: offset + size <= buffer().size.
  void copy_from_host(std::size_t offset, std::span<const std::byte> bytes);
  void copy_to_host(std::size_t offset, std::span<std::byte> bytes) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  int device_ = 0;
};

// The GPU whose memory that is; 0 for an empty buffer. Throws TZE-USE-001 for memory of no GPU. REQUIRES: memory.kind
// == kDevice.
int device_of(ConstBuffer memory);

// Copies GPU memory of any owner to the host, and blocks until it is copied. REQUIRES: from.kind == kDevice, and
// to.size() == from.size.
void copy_to_host(ConstBuffer from, std::span<std::byte> to);

// Starts all copies before it waits for them, so that many small ones cost little more than their bytes. The memory may
// be of several GPUs.
struct CopyToHost {
  ConstBuffer from;
  std::span<std::byte> to;
};
void copy_to_host(std::span<const CopyToHost> copies);

// Copies in the other direction. REQUIRES: to.kind == kDevice, and from.size() == to.size.
void copy_from_host(std::span<const std::byte> from, MutableBuffer to);

// Blocks until the memory is zeroed. REQUIRES: memory.kind == kDevice.
void fill_with_zeros(MutableBuffer memory);

// Blocks until a CUDA stream has finished what it was given. memory: of the GPU of the stream. stream: a CUstream as a
// number; 1 and 2 are CUDA's default streams, the legacy one and that of this thread.
void wait_for_stream(ConstBuffer memory, std::uintptr_t stream);

// Pins host memory as long as this object lives, which makes copies between it and all GPUs fast. The memory must
// outlive this object. Move-only.
class PinnedRange {
 public:
  PinnedRange() = default;
  // device: a GPU that the process uses anyway; without it that of the thread's context, or GPU 0.
  explicit PinnedRange(std::span<std::byte> memory, std::optional<int> device = std::nullopt);
  ~PinnedRange();
  PinnedRange(PinnedRange&& other) noexcept;
  PinnedRange& operator=(PinnedRange&& other) noexcept;

 private:
  std::byte* memory_ = nullptr;
  std::optional<int> device_;
};

}  // namespace tzmark
