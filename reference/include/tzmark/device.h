// Tensors in GPU memory: where Reader::load_into_device puts them, and where a writer gets them from.
//
// Which way bytes take is the file's I/O path. `gpudirect` moves them between storage and GPU memory by itself. Any
// other path moves them to pinned host memory, from where they are copied while others are read.
// Streams: calls that read return when the bytes are in place and checked, so whatever stream uses them next has
// nothing to wait for. Memory that the caller gives must not be in use by work that is still under way, nor may
// tensors be that a writer takes from there.
// Errors: TZE-AVL-001 where there is no GPU or no kernels for what was asked; TZE-ENV-006 where GPU memory or pinned
// memory is not to be had; those of the Reader.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tzmark/gpudirect.h"
#include "tzmark/reader.h"

namespace tzmark {

// Where MACs and CRC32 of large tensors are computed, and where they are decrypted. Small tensors, many of which share
// a piece with their headers, are always dealt with on the host.
enum class DeviceCompute : std::uint8_t {
  kAuto,    // on the GPU if it can do all that is asked for, or if the path is gpudirect
  kHost,    // on the host, before the bytes are copied; not with gpudirect
  kDevice,  // on the GPU
};

struct DeviceReadOptions {
  // A GPU is no help with SHA-256, which is one chain a tensor: what went past the host is copied back to be hashed.
  Verification verify = Verification::kAll;
  DeviceCompute compute = DeviceCompute::kAuto;
};

// The plaintext of all tensors of a file, in one allocation of GPU memory that it owns. Moves and does not copy.
class DeviceTensors {
 public:
  explicit DeviceTensors(const TensorTable& tensors);

  std::size_t size() const { return places_.size(); }
  // Aligned to 64 bytes; empty for a meta tensor.
  MutableBuffer operator[](std::size_t tensor) const {
    return memory_.buffer().sub(places_[tensor].offset, places_[tensor].length);
  }
  // All of them, with what lies between.
  MutableBuffer all() const { return memory_.buffer(); }

 private:
  struct Place {
    std::uint64_t offset, length;
  };
  std::vector<Place> places_;
  DeviceMemory memory_;
};

// Tensors of GPU memory for a writer, in the order of its table; empty ones for meta tensors. The memory has to live
// as long as the source.
class DeviceSource final : public TensorSource {
 public:
  explicit DeviceSource(std::vector<ConstBuffer> tensors) : tensors_(std::move(tensors)) {}
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;
  bool is_on_device() const override { return true; }

 private:
  const std::vector<ConstBuffer> tensors_;
};

}  // namespace tzmark
