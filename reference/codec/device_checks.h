// Opens and checks large tensors that lie in GPU memory as they do in the file.
//
// Parts are gathered to batches, so that the GPU has enough to do at a time; whoever completes a batch waits for the
// GPU, while others go on. What the GPU cannot compute is copied back and computed on the host, in the end.
// Private to the codec.
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
  DeviceChecks(const ReaderState& state, Verification verify, DeviceCopies& copies);

  // The part of a tensor that begins at offset is in its place; tensor: the whole of it. number: in file order.
  // Thread-safe. REQUIRES: parts of a tensor begin where FileTensorStream::part_bytes says.
  void add(std::size_t number, const std::shared_ptr<LargeTensor>& large, MutableBuffer tensor, std::uint64_t offset,
           std::size_t length);

  // Checks what is left. Throws the first error in file order. REQUIRES: every part of each tensor was added.
  void finish();

 private:
  struct Part {
    std::uint64_t offset;
    std::size_t length;
    std::uint32_t crc32;
    auto operator<=>(const Part&) const = default;
  };
  struct Tensor {
    std::shared_ptr<LargeTensor> large;
    MutableBuffer memory;
    std::uint64_t arrived_bytes = 0;
    std::vector<Part> checked = {};        // in any order
    std::exception_ptr failure = nullptr;  // at failed_message
    std::uint64_t failed_message = 0;

    const ExpectedHashes& expected() const { return *large->stream.expected(); }
  };
  struct Job {
    Tensor* tensor;
    Part part;
  };

  void check(std::vector<Job>& batch);
  void open(const std::vector<Job>& batch);
  void compute_crc32(std::vector<Job>& batch) const;
  void verify(Tensor& tensor) const;
  void hash_on_host(Tensor& tensor, TensorDigest& digest) const;
  bool wants_crc32(const Tensor& tensor) const {
    return verify_ != Verification::kNone && tensor.expected().wants_crc32();
  }
  bool wants_sha256(const Tensor& tensor) const {
    return verify_ == Verification::kAll && tensor.expected().wants_sha256();
  }

  const ReaderState& state_;
  const Verification verify_;
  const bool has_kernels_;
  DeviceCopies& copies_;
  std::mutex mutex_;
  std::map<std::size_t, Tensor> tensors_;  // by number; they stay where they are
  std::vector<Job> waiting_;
  std::size_t waiting_bytes_ = 0;
};

}  // namespace tzmark
