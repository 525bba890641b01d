// Copies from host memory to the GPU, by several threads at a time: each has a stream of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "io/cuda.h"
#include "tzmark/gpudirect.h"
#include "tzmark/memory.h"

namespace tzmark {

// For one thread at a time, which has a context. Calls throw TZE-ENV-006.
class DeviceCopy {
 public:
  // staging_bytes: the most that gather takes at once.
  explicit DeviceCopy(std::size_t staging_bytes) : staging_bytes_(staging_bytes) {}

  // Returns when the bytes are there. Fast from and to pinned memory.
  void to_device(std::byte* to, std::span<const std::byte> from) const;
  void to_host(std::span<std::byte> to, const std::byte* from) const;

  // Many small copies to places that follow each other are made in one. flush returns when all of them are there.
  // REQUIRES: from.size() <= staging_bytes.
  void gather(std::byte* to, std::span<const std::byte> from);
  void flush();

  // Pinned memory of staging_bytes, made when it is first asked for.
  std::span<std::byte> staging();

 private:
  const std::size_t staging_bytes_;
  const CudaStream stream_;
  HostMemory memory_;
  PinnedRange pinned_;
  std::byte* gathered_to_ = nullptr;
  std::size_t gathered_bytes_ = 0;
};

// Those that nobody uses are kept for whoever comes next. Thread-safe.
class DeviceCopies {
 public:
  explicit DeviceCopies(std::size_t staging_bytes) : staging_bytes_(staging_bytes) {}

  // Runs use(copy) with one that nobody else has meanwhile. The thread gets a context.
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
