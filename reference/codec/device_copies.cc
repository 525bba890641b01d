// Copies over CUDA streams, with small ones gathered in pinned memory.
#include "codec/device_copies.h"

#include <algorithm>
#include <cstring>

#include "bytes/requires.h"

namespace tzmark {
namespace {

// The gaps between tensors of a DeviceTensors are smaller than this.
constexpr std::size_t kGapBytes = 64;

}  // namespace

void DeviceCopy::to_device(std::byte* to, std::span<const std::byte> from) const {
  if (from.empty()) return;
  check_cuda(Cuda::instance().calls().start_copy_to_device(device_address(to), from.data(), from.size(), stream_.get()),
             "cuMemcpyHtoDAsync");
  stream_.wait();
}

void DeviceCopy::to_host(std::span<std::byte> to, const std::byte* from) const {
  if (to.empty()) return;
  check_cuda(Cuda::instance().calls().start_copy_to_host(to.data(), device_address(from), to.size(), stream_.get()),
             "cuMemcpyDtoHAsync");
  stream_.wait();
}

void DeviceCopy::gather(std::byte* to, std::span<const std::byte> from) {
  TZMARK_REQUIRES(from.size() <= staging_bytes_);
  const std::byte* const end = gathered_to_ + gathered_bytes_;
  const bool follows = gathered_bytes_ > 0 && to >= end && static_cast<std::size_t>(to - end) < kGapBytes;
  if (!follows || static_cast<std::size_t>(to - gathered_to_) + from.size() > staging_bytes_) flush();
  const std::span<std::byte> room = staging();
  if (gathered_bytes_ == 0) gathered_to_ = to;
  const auto place = static_cast<std::size_t>(to - gathered_to_);
  std::memset(room.data() + gathered_bytes_, 0, place - gathered_bytes_);
  std::memcpy(room.data() + place, from.data(), from.size());
  gathered_bytes_ = place + from.size();
}

void DeviceCopy::flush() {
  if (gathered_bytes_ == 0) return;
  to_device(gathered_to_, memory_.bytes().first(gathered_bytes_));
  gathered_bytes_ = 0;
}

std::span<std::byte> DeviceCopy::staging() {
  if (memory_.bytes().empty()) {
    HostMemory memory(staging_bytes_);
    pinned_ = PinnedRange(memory.bytes());
    memory_ = std::move(memory);
  }
  return memory_.bytes();
}

std::unique_ptr<DeviceCopy> DeviceCopies::take() {
  Cuda::instance().make_context_current();
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      auto copy = std::move(free_.back());
      free_.pop_back();
      return copy;
    }
  }
  return std::make_unique<DeviceCopy>(staging_bytes_);
}

}  // namespace tzmark
