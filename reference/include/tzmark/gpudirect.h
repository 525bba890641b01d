// GPU memory for the I/O path gpudirect, and proof of the way that bytes took to it.
//
// The path moves device memory through libcufile, which may do it in three ways: by PCI peer-to-peer, by the kernel
// module nvidia-fs, or by ordinary reads and copies ("POSIX compatibility mode"). It does not say which when it
// returns, and what its properties promise proves nothing. Its own statistics do.
// Errors: TZE-AVL-001 where there is no GPU or no libcufile; TZE-ENV-006 for GPU memory that is not to be had.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tzmark/buffer.h"

namespace tzmark {

struct GpuDirectAttestation {
  std::string route = "unknown";  // p2p, nvidia-fs, posix, mixed, unknown
  // "cuFileGetStatsL3", "/proc/driver/nvidia-fs/stats", or "none"
  std::string source = "none";
  // Why the route is unknown, or what the numbers leave open; empty if they leave nothing open.
  std::string note;
  // As the source counts them. libcufile counts what it was asked to move, so that a read at the end of the file
  // counts in full; nvidia-fs counts whole MiB.
  std::uint64_t p2p_bytes = 0;
  std::uint64_t nvfs_bytes = 0;
  std::uint64_t posix_bytes = 0;
  // The ends of writes that do not fill a block. The path copies them to the host and writes them itself, whatever
  // the route of the rest; they are in none of the other numbers.
  std::uint64_t edge_bytes = 0;
};

// Watches what this process moves through the path gpudirect between begin and end. For one thread, and one observer
// at a time: the statistics are the process's. Watching costs libcufile some time, so do it in a pass of its own.
class GpuDirectObserver {
 public:
  GpuDirectObserver();
  ~GpuDirectObserver();
  GpuDirectObserver(const GpuDirectObserver&) = delete;
  GpuDirectObserver& operator=(const GpuDirectObserver&) = delete;

  void begin();
  // REQUIRES: begin was called, and no transfer is in flight.
  GpuDirectAttestation end();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Memory of GPU 0. Moves and does not copy. For one owner at a time; what it shows may be used from any threads.
class DeviceMemory {
 public:
  // Empty if there is a GPU that can be used.
  static std::string why_unavailable();

  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept;
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;

  // Of kind kDevice; valid as long as this object.
  MutableBuffer buffer() const;

  // These return when the bytes are there. REQUIRES: offset + size <= buffer().size.
  void copy_from_host(std::size_t offset, std::span<const std::byte> bytes);
  void copy_to_host(std::size_t offset, std::span<std::byte> bytes) const;

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Copies device memory of anybody's to the host, and returns when it is there. REQUIRES: from.kind == kDevice, and
// to.size() == from.size.
void copy_to_host(ConstBuffer from, std::span<std::byte> to);

// The other way. REQUIRES: to.kind == kDevice, and from.size() == to.size.
void copy_from_host(std::span<const std::byte> from, MutableBuffer to);

// Returns when the memory is all zeros. REQUIRES: memory.kind == kDevice.
void fill_with_zeros(MutableBuffer memory);

// Keeps host memory of somebody else's where it is and in reach of the GPU, so that copies between both are fast, for
// as long as it lives; the memory has to live longer. Moves and does not copy.
class PinnedRange {
 public:
  PinnedRange() = default;
  // Throws TZE-AVL-001 without a GPU, and TZE-ENV-006 if the system does not let so much be pinned.
  explicit PinnedRange(std::span<std::byte> memory);
  ~PinnedRange();
  PinnedRange(PinnedRange&& other) noexcept;
  PinnedRange& operator=(PinnedRange&& other) noexcept;

 private:
  std::byte* memory_ = nullptr;
};

}  // namespace tzmark
