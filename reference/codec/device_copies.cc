// Copies over CUDA streams, with small ones gathered in pinned memory.
#include "codec/device_copies.h"

#include <algorithm>
#include <cstring>

#include "bytes/requires.h"
#include "tzmark/digest.h"
#include "tzmark/error.h"

namespace tzmark {
DeviceCopy::~DeviceCopy() {
  // A destructor cannot report that waiting failed.
  try {
    stream_.wait();
  } catch (const Error&) {
  }
}

void DeviceCopy::start_to_device(std::byte* to, std::span<const std::byte> from, CudaEvent& copied) const {
  check_cuda(Cuda::instance().calls().start_copy_to_device(device_address(to), from.data(), from.size(), stream_.get()),
             "cuMemcpyHtoDAsync");
  try {
    copied.record(stream_);
  } catch (const Error&) {
    stream_.wait();
    throw;
  }
}

void DeviceCopy::to_host(std::span<std::byte> to, const std::byte* from) const {
  if (to.empty()) return;
  check_cuda(Cuda::instance().calls().start_copy_to_host(to.data(), device_address(from), to.size(), stream_.get()),
             "cuMemcpyDtoHAsync");
  stream_.wait();
}

void DeviceCopy::gather(std::byte* to, std::span<const std::byte> from) {
  TZMARK_REQUIRES(from.size() <= staging_bytes_);
  if (from.empty()) return;
  const std::byte* const end = gathered_.empty() ? nullptr : gathered_.back().to + gathered_.back().bytes;
  const bool follows = end != nullptr && to >= end && static_cast<std::size_t>(to - end) < gap_bytes_;
  const std::size_t gap = follows ? static_cast<std::size_t>(to - end) : 0;
  if (gap + from.size() > staging_bytes_ - gathered_bytes_) {
    flush();
    return gather(to, from);
  }
  const std::span<std::byte> room = staging().subspan(gathered_bytes_);
  if (follows) {
    std::memset(room.data(), 0, gap);
    gathered_.back().bytes += gap + from.size();
  } else {
    gathered_.push_back({to, gathered_bytes_, from.size()});
  }
  std::memcpy(room.data() + gap, from.data(), from.size());
  gathered_bytes_ += gap + from.size();
}

void DeviceCopy::flush() {
  if (gathered_.empty()) return;
  const std::span<const std::byte> from = staging();
  try {
    for (const auto& [to, at, bytes] : gathered_) {
      check_cuda(
          Cuda::instance().calls().start_copy_to_device(device_address(to), from.data() + at, bytes, stream_.get()),
          "cuMemcpyHtoDAsync");
    }
  } catch (const Error&) {
    // Those before are in flight, from memory that is used again.
    forget_gathered();
    try {
      stream_.wait();
    } catch (const Error&) {
    }
    throw;
  }
  forget_gathered();
  stream_.wait();
}

std::span<std::byte> DeviceCopy::staging() {
  if (staging_.bytes().empty()) staging_ = PinnedPool::instance().take(staging_bytes_, device_, holds_secrets_);
  return staging_.bytes().first(staging_bytes_);
}

DeviceCopies::Started* DeviceCopies::start_to_device(std::byte* to, std::span<const std::byte> from) {
  TZMARK_REQUIRES(!from.empty());
  Started* started = nullptr;
  with([&](const DeviceCopy& copy) {
    Started& one = take_of(started_, [] { return std::make_unique<Started>(); });
    copy.start_to_device(to, from, one.copied);
    one.by = &copy;
    started = &one;
  });
  return started;
}

DeviceCopies::~DeviceCopies() {
  // A destructor cannot report that there is no context any more, which only a driver that has ended can cause.
  try {
    const CudaContext context(device_);
    started_ = {};
    copies_ = {};
  } catch (const Error&) {
  }
}

void DeviceCopies::wait(Started* started) {
  const CudaContext context(device_);
  try {
    started->copied.wait();
  } catch (const Error&) {
    // The memory must not be used again before the copy has ended, so all of its stream is waited for.
    try {
      started->by->wait();
    } catch (const Error&) {
    }
    throw;
  }
  const std::lock_guard lock(mutex_);
  started_.free.push_back(started);
}

template <typename Object, typename Make>
Object& DeviceCopies::take_of(Pool<Object>& pool, const Make& make) {
  {
    const std::lock_guard lock(mutex_);
    if (!pool.free.empty()) {
      Object& object = *pool.free.back();
      pool.free.pop_back();
      return object;
    }
  }
  std::unique_ptr<Object> made = make();
  const std::lock_guard lock(mutex_);
  pool.free.reserve(pool.all.size() + 1);
  return *pool.all.emplace_back(std::move(made));
}

DeviceCopy& DeviceCopies::take() {
  return take_of(copies_,
                 [&] { return std::make_unique<DeviceCopy>(device_, staging_bytes_, holds_secrets_, gap_bytes_); });
}

void DeviceCopies::give_back(DeviceCopy& copy) {
  copy.forget_gathered();
  const std::lock_guard lock(mutex_);
  copies_.free.push_back(&copy);
}

void add_from_device(DeviceCopies& copies, ConstBuffer memory, bool wants_crc32, TensorDigest& digest,
                     const Progress& progress) {
  copies.with([&](DeviceCopy& copy) {
    const std::span<std::byte> room = copy.staging();
    for (std::size_t at = 0; at < memory.size;) {
      const std::span<std::byte> piece = room.first(std::min(room.size(), memory.size - at));
      copy.to_host(piece, memory.data + at);
      digest.add(piece, wants_crc32 ? crc32(0, piece) : 0);
      if (progress) progress(piece.size());
      at += piece.size();
    }
  });
}

}  // namespace tzmark
