// Memory of GPU 0, host memory that is pinned for it, and copies between the two.
//
// Thread-safety: an object has one owner at a time; the memory that it owns may be used from any threads. The free
// functions are thread-safe.
// Errors: TZE-AVL-001 without a usable GPU; TZE-ENV-006 if memory cannot be allocated or pinned, or a copy fails.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "tzmark/buffer.h"

namespace tzmark {

// Owns GPU memory. Move-only.
class DeviceMemory {
 public:
  // The reason why there is no usable GPU; empty if there is one.
  static std::string why_unavailable();

  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  // The whole memory, of kind kDevice; valid as long as this object.
  MutableBuffer buffer() const;

  // Block until the bytes are copied. REQUIRES: offset + size <= buffer().size.
  void copy_from_host(std::size_t offset, std::span<const std::byte> bytes);
  void copy_to_host(std::size_t offset, std::span<std::byte> bytes) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Copies GPU memory, whoever owns it, to the host, and blocks until it is copied. REQUIRES: from.kind == kDevice, and
// to.size() == from.size.
void copy_to_host(ConstBuffer from, std::span<std::byte> to);

// Copies in the other direction. REQUIRES: to.kind == kDevice, and from.size() == to.size.
void copy_from_host(std::span<const std::byte> from, MutableBuffer to);

// Blocks until the memory is zeroed. REQUIRES: memory.kind == kDevice.
void fill_with_zeros(MutableBuffer memory);

// Pins host memory as long as this object lives, which makes copies between it and the GPU fast. The memory must
// outlive this object. Move-only.
class PinnedRange {
 public:
  PinnedRange() = default;
  explicit PinnedRange(std::span<std::byte> memory);
  ~PinnedRange();
  PinnedRange(PinnedRange&& other) noexcept;
  PinnedRange& operator=(PinnedRange&& other) noexcept;

 private:
  std::byte* memory_ = nullptr;
};

}  // namespace tzmark
