// Copies between host memory and the GPU by several threads, each with its own CUDA stream.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/cuda.h"
#include "tzmark/device_memory.h"
#include "tzmark/memory.h"

namespace tzmark {

// For one thread at a time, with a current CUDA context. Calls throw TZE-ENV-006.
class DeviceCopy {
 public:
  // staging_bytes: the largest copy that gather accepts.
  explicit DeviceCopy(std::size_t staging_bytes) : staging_bytes_(staging_bytes) {}

  // Block until the bytes are copied. Fast if the host memory is pinned.
  void to_device(std::byte* to, std::span<const std::byte> from) const;
  void to_host(std::span<std::byte> to, const std::byte* from) const;

  // Merges small copies to consecutive places into one; flush blocks until all of them are copied.
  // REQUIRES: from.size() <= staging_bytes.
  void gather(std::byte* to, std::span<const std::byte> from);
  void flush();

  // Pinned memory of staging_bytes, allocated by the first call.
  std::span<std::byte> staging();

 private:
  const std::size_t staging_bytes_;
  const CudaStream stream_;
  HostMemory memory_;
  PinnedRange pinned_;
  std::byte* gathered_to_ = nullptr;
  std::size_t gathered_bytes_ = 0;
};

// A pool of DeviceCopy objects. Thread-safe.
class DeviceCopies {
 public:
  explicit DeviceCopies(std::size_t staging_bytes) : staging_bytes_(staging_bytes) {}

  // Makes the CUDA context current, and calls use(copy) with an object that no other thread uses meanwhile.
  template <typename Use>
  void with(Use&& use) {
    std::unique_ptr<DeviceCopy> copy = take();
    use(*copy);
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(copy));
  }

 private:
  std::unique_ptr<DeviceCopy> take();

  const std::size_t staging_bytes_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<DeviceCopy>> free_;
};

}  // namespace tzmark
