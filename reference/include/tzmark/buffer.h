// Views of memory that carry its kind.
//
// A view owns nothing; the memory must outlive it. The kind lets an I/O path that cannot access GPU memory throw an
// error instead of crashing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tzmark {

enum class MemoryKind : std::uint8_t {
  kHost,    // ordinary pageable memory
  kPinned,  // host memory that a GPU can reach by DMA
  kDevice,  // GPU memory: the CPU must not touch it
};

struct ConstBuffer {
  const std::byte* data = nullptr;
  std::size_t size = 0;
  MemoryKind kind = MemoryKind::kHost;

  ConstBuffer() = default;
  ConstBuffer(const std::byte* d, std::size_t n, MemoryKind k = MemoryKind::kHost) : data(d), size(n), kind(k) {}
  template <std::size_t N>
  ConstBuffer(std::span<const std::byte, N> s) : data(s.data()), size(s.size()) {}
  template <std::size_t N>
  ConstBuffer(std::span<std::byte, N> s) : data(s.data()), size(s.size()) {}

  // REQUIRES: offset + length <= size.
  ConstBuffer sub(std::size_t offset, std::size_t length) const {
    return {std::span(data, size).subspan(offset, length).data(), length, kind};
  }
  // REQUIRES: kind != kDevice.
  std::span<const std::byte> bytes() const { return {data, size}; }
};

struct MutableBuffer {
  std::byte* data = nullptr;
  std::size_t size = 0;
  MemoryKind kind = MemoryKind::kHost;

  MutableBuffer() = default;
  MutableBuffer(std::byte* d, std::size_t n, MemoryKind k = MemoryKind::kHost) : data(d), size(n), kind(k) {}
  template <std::size_t N>
  MutableBuffer(std::span<std::byte, N> s) : data(s.data()), size(s.size()) {}
  operator ConstBuffer() const { return {data, size, kind}; }

  // REQUIRES: offset + length <= size.
  MutableBuffer sub(std::size_t offset, std::size_t length) const {
    return {std::span(data, size).subspan(offset, length).data(), length, kind};
  }
  // REQUIRES: kind != kDevice.
  std::span<std::byte> bytes() const { return {data, size}; }
};

}  // namespace tzmark
