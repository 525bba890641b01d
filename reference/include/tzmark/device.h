// Tensors in GPU memory: Reader::load_into_device reads into it, and a writer writes from it.
//
// The file's I/O path determines the route. `gpudirect` transfers directly between storage and GPU memory. Any other
// path reads into pinned host memory, which is copied to the GPU while further tensors are read.
//
// CUDA streams: calls that read return when the bytes are in place and verified; a stream that uses them next need not
// wait. Memory that the caller passes, and tensors that a writer reads, must not be in use by unfinished GPU work.
// Thread-safety: const calls are thread-safe.
// Errors: TZE-AVL-001 without a GPU, or without the kernels that the options need; TZE-ENV-006 if GPU or pinned memory
// cannot be allocated; and those of the Reader.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tzmark/device_memory.h"
#include "tzmark/reader.h"

namespace tzmark {

// Where large tensors are decrypted and their MACs and CRC32 are computed. Small tensors, many of which share a
// transfer with their headers, are always processed on the host.
enum class DeviceCompute : std::uint8_t {
  kAuto,    // on the GPU if it can compute everything that is asked for, or if the path is gpudirect
  kHost,    // on the host, before the bytes are copied; not with gpudirect
  kDevice,  // on the GPU
};

struct DeviceReadOptions {
  // SHA-256 is always computed on the host, since one tensor's digest cannot be parallelized. Bytes that bypassed the
  // host are copied back for it.
  Verification verify = Verification::kAll;
  DeviceCompute compute = DeviceCompute::kAuto;
  // The GPU of load_into_device; read_into_device goes by its destination.
  int device = 0;
  // Maximal size of a copy to the GPU, and of the pinned memory of one call. Copies of 8 MiB reach the rate of the bus
  // and fit into the L2 cache of a core; with its two pages of room, a buffer of this size fills whole huge pages.
  // Copies of an encrypted file have at least the piece size of the Reader, those of another one at most the size of
  // its parts where that is set; and where the host hashes what it reads, they have the piece size.
  std::size_t piece_bytes = (8 << 20) - (8 << 10);
  // With it, a load takes less than 256 MiB of host memory, by fewer threads if there are many; an explicit queue depth
  // of the Reader overrides it.
  std::size_t pinned_bytes_max = 240 << 20;
};

// Prepares loads with these options, for a server whose first load should take as long as the next ones: loads the
// kernels, creates the context of the GPU, and pins memory for a Reader with the default sizes of pieces. threads: of
// that Reader; 0 = one per core.
void warm_up(const DeviceReadOptions& options = {}, unsigned threads = 0);

// Owns the plaintext of all tensors of a file, in one allocation of GPU memory. Move-only.
class DeviceTensors {
 public:
  explicit DeviceTensors(const TensorTable& tensors, int device = 0);

  std::size_t size() const { return ranges_.size(); }
  // Aligned to 64 bytes; empty for a meta tensor.
  MutableBuffer operator[](std::size_t tensor) const {
    return memory_.buffer().sub(ranges_[tensor].offset, ranges_[tensor].length);
  }
  // The whole allocation, including the gaps between tensors.
  MutableBuffer all() const { return memory_.buffer(); }

 private:
  struct Range {
    std::uint64_t offset, length;
  };
  std::vector<Range> ranges_;
  DeviceMemory memory_;
};

// Tensors in GPU memory as a source for a writer, in the order of its table; empty buffers for meta tensors. The memory
// must outlive the source.
class DeviceSource final : public TensorSource {
 public:
  explicit DeviceSource(std::vector<ConstBuffer> tensors) : tensors_(std::move(tensors)) {}
  std::unique_ptr<TensorStream> open(std::size_t tensor) const override;
  bool is_on_device() const override { return true; }

 private:
  const std::vector<ConstBuffer> tensors_;
};

}  // namespace tzmark
