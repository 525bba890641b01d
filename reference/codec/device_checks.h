// Decrypts and verifies large tensors in GPU memory.
//
// Parts are gathered in batches that keep the GPU busy; the thread that completes a batch waits for the GPU while
// others go on. What the GPU cannot compute is copied back at the end, and computed on the host.
#pragma once

#include <compare>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "codec/device_copies.h"
#include "codec/scan_job.h"

namespace tzmark {

class DeviceChecks {
 public:
  // Throws TZE-AVL-001 if the file is encrypted and there are no kernels.
  // device: the GPU of the tensors. piece_bytes: the most of a part.
  DeviceChecks(const ReaderState& state, Verification verify, int device, std::size_t piece_bytes,
               DeviceCopies& copies);

  // Adds a part that has been read: length bytes from offset on. tensor: the memory of the whole tensor, which is
  // number `number` in file order. Thread-safe. REQUIRES: parts of a tensor begin where FileTensorStream::part_bytes
  // says.
  void add(std::size_t number, const std::shared_ptr<LargeTensor>& large, MutableBuffer tensor, std::uint64_t offset,
           std::size_t length);

  // Verifies what is left. Throws the first error in file order. With an end, of the tensors before it those that came
  // as a whole; without, REQUIRES: every part of each tensor was added.
  void finish(Position end = {~std::size_t{0}, 0});

 private:
  struct CheckedPart {
    std::uint64_t offset;
    std::size_t length;
    std::uint32_t crc32;
    auto operator<=>(const CheckedPart&) const = default;
  };
  struct ArrivingTensor {
    std::shared_ptr<LargeTensor> large;
    MutableBuffer memory;
    std::uint64_t arrived_bytes = 0;
    std::vector<CheckedPart> checked = {};  // in any order
    std::exception_ptr failure = nullptr;   // at failed_message
    std::uint64_t failed_message = 0;

    bool is_checked() const {
      std::uint64_t checked_bytes = 0;
      for (const CheckedPart& part : checked) checked_bytes += part.length;
      return checked_bytes == memory.size;
    }
    const ExpectedHashes& expected() const { return *large->stream().expected(); }
  };
  struct Arrival {
    ArrivingTensor* tensor;
    CheckedPart part;
  };

  void check(std::vector<Arrival>& batch);
  void open(const std::vector<Arrival>& batch);
  void compute_crc32(std::vector<Arrival>& batch) const;
  void verify(ArrivingTensor& tensor) const;
  bool wants_crc32(const ArrivingTensor& tensor) const {
    return verify_ != Verification::kNone && tensor.expected().wants_crc32();
  }
  bool wants_sha256(const ArrivingTensor& tensor) const {
    return verify_ == Verification::kAll && tensor.expected().wants_sha256();
  }

  const ReaderState& state_;
  const Verification verify_;
  const bool has_kernels_;
  const std::size_t piece_bytes_;
  DeviceCopies& copies_;
  std::mutex mutex_;
  std::map<std::size_t, ArrivingTensor> tensors_;  // by number; a map never moves them
  std::vector<Arrival> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace tzmark
