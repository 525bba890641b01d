// Copies between host memory and a GPU by several threads, each with its own CUDA stream.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "codec/tensor_digest.h"
#include "io/cuda.h"
#include "io/pinned_pool.h"
#include "tzmark/buffer.h"
#include "tzmark/reader.h"

namespace tzmark {

// For one thread at a time, with a CudaContext of the GPU. Calls throw TZE-ENV-006.
class DeviceCopy {
 public:
  // staging_bytes: the largest copy that gather accepts. gap_bytes: gather zeroes less than that between two copies; 0
  // if what is there belongs to others, or may be another allocation.
  DeviceCopy(int device, std::size_t staging_bytes, bool holds_secrets, std::size_t gap_bytes = 0)
      : device_(device), staging_bytes_(staging_bytes), holds_secrets_(holds_secrets), gap_bytes_(gap_bytes) {}
  // Waits for what was started.
  ~DeviceCopy();
  DeviceCopy(const DeviceCopy&) = delete;
  DeviceCopy& operator=(const DeviceCopy&) = delete;

  // Starts a copy and records when it is complete. The host memory must be pinned, and stay until then.
  void start_to_device(std::byte* to, std::span<const std::byte> from, CudaEvent& copied) const;
  // Blocks until the bytes are copied. Fast if the host memory is pinned.
  void to_host(std::span<std::byte> to, const std::byte* from) const;

  // Gathers small copies, and merges those to places that are less than gap_bytes apart. flush starts them, and blocks
  // until all of them are complete. REQUIRES: from.size() <= staging_bytes.
  void gather(std::byte* to, std::span<const std::byte> from);
  void flush();

  // Drops what is gathered and not flushed.
  void forget_gathered() {
    gathered_.clear();
    gathered_bytes_ = 0;
  }

  // Pinned memory of staging_bytes, taken from the pool by the first call.
  std::span<std::byte> staging();
  // Blocks until all copies are complete.
  void wait() const { stream_.wait(); }

 private:
  const int device_;
  const std::size_t staging_bytes_;
  const bool holds_secrets_;
  const std::size_t gap_bytes_;
  PinnedMemory staging_;
  const CudaStream stream_;
  struct Gathered {
    std::byte* to;
    std::size_t at, bytes;  // in the staging memory
  };
  std::vector<Gathered> gathered_;
  std::size_t gathered_bytes_ = 0;  // of the staging memory, by all of them
};

// A pool of DeviceCopy objects, and the copies that they have started. Thread-safe.
class DeviceCopies {
 public:
  // A copy that is in flight.
  struct Started {
    CudaEvent copied;
    const DeviceCopy* by = nullptr;
  };

  // As of a DeviceCopy.
  DeviceCopies(int device, std::size_t staging_bytes, bool holds_secrets, std::size_t gap_bytes = 0)
      : device_(device), staging_bytes_(staging_bytes), holds_secrets_(holds_secrets), gap_bytes_(gap_bytes) {}
  ~DeviceCopies();
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  // Makes a context of the GPU current, and calls use(copy) with an object that no other thread uses meanwhile.
  template <typename Use>
  void with(Use&& use) {
    const CudaContext context(device_);
    const Lent lent(*this);
    use(lent.copy);
  }

  // Starts a copy from pinned memory, which must stay as it is until wait returns. Throws only if nothing is in flight.
  // REQUIRES: from is not empty.
  Started* start_to_device(std::byte* to, std::span<const std::byte> from);
  // Blocks until the copy is complete, and forgets it, also if this throws.
  void wait(Started* started);

 private:
  // Objects that are made when none is free, and live as long as the pool: copies in flight refer to them.
  template <typename Object>
  struct Pool {
    std::vector<std::unique_ptr<Object>> all;
    std::vector<Object*> free;  // has room for all
  };
  struct Lent {
    explicit Lent(DeviceCopies& owner) : copies(owner), copy(owner.take()) {}
    ~Lent() { copies.give_back(copy); }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;

    DeviceCopies& copies;
    DeviceCopy& copy;
  };

  template <typename Object, typename Make>
  Object& take_of(Pool<Object>& pool, const Make& make);
  DeviceCopy& take();
  void give_back(DeviceCopy& copy);

  const int device_;
  const std::size_t staging_bytes_;
  const bool holds_secrets_;
  const std::size_t gap_bytes_;
  std::mutex mutex_;
  Pool<DeviceCopy> copies_;
  Pool<Started> started_;
};

// Hashes GPU memory on the host, to which it is copied piece by piece.
void add_from_device(DeviceCopies& copies, ConstBuffer memory, bool wants_crc32, TensorDigest& digest,
                     const Progress& progress = {});

}  // namespace tzmark
