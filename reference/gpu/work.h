// The GPU work of one call: a stream, and scratch memory that is wiped at the end.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bytes/requires.h"
#include "io/cuda.h"
#include "io/pinned_pool.h"
#include "tzmark/device_memory.h"

namespace tzmark::gpu {

// The GPU that all of the memory is of; 0 if all of it is empty. Throws TZE-AVL-001 without a GPU, and TZE-USE-001 if
// the memory is of several GPUs, or of none.
int device_of_all(std::span<const ConstBuffer> memory);

// A kernel of a GPU.
struct Kernel {
  void* function = nullptr;
  unsigned threads = 0;       // of a block
  unsigned shared_bytes = 0;  // of a block, beyond what the compiler knows
};

// The kernels of a GPU, which the first call loads for the life of the process. Thread-safe.
class Kernels {
 public:
  static const Kernels& of(int device);

  // The reason why kernels cannot be launched; empty if they can. The rest REQUIRES that it is empty.
  const std::string& why_unavailable() const { return why_unavailable_; }
  const Kernel& crc32_tables() const { return crc32_tables_; }
  const Kernel& crc32_matrix() const { return crc32_matrix_; }
  const Kernel& secretbox_keys() const { return secretbox_keys_; }
  const Kernel& secretbox_macs() const { return secretbox_macs_; }
  const Kernel& secretbox_verdicts() const { return secretbox_verdicts_; }
  const Kernel& secretbox_open() const { return secretbox_open_; }
  const Kernel& read() const { return read_; }
  // The address of the Crc32Matrix in the memory of the GPU. REQUIRES: has_crc32_matrix().
  std::uint64_t crc32_matrix_address() const { return device_address(matrix_->buffer().data); }
  // Multiprocessors of the GPU.
  unsigned processors() const { return processors_; }
  // Whether crc32_matrix() can be launched: GPUs without an instruction for it use tables instead.
  bool has_crc32_matrix() const { return matrix_ != nullptr; }

 private:
  explicit Kernels(int device) : why_unavailable_(load(device)) {}
  std::string load(int device);

  Kernel crc32_tables_, crc32_matrix_;
  Kernel secretbox_keys_, secretbox_macs_, secretbox_verdicts_, secretbox_open_;
  Kernel read_;
  std::unique_ptr<DeviceMemory> matrix_;
  unsigned processors_ = 1;
  const std::string why_unavailable_;  // last, because it is found by setting the others
};

// What calls use one after the other: allocating it takes longer than most kernels.
struct Workspace {
  Workspace(int device, std::size_t bytes, std::size_t exchanged_bytes);

  DeviceMemory scratch;
  PinnedMemory host;  // what is copied to the begin of the scratch memory and back
  CudaStream stream;
};

// Unused workspaces of all GPUs, of which a few are kept. Not for a process that was forked afterwards. Thread-safe.
class Workspaces {
 public:
  static Workspaces& instance();  // never destroyed

  // With scratch memory of at least that size, of which at least that much is exchanged with the host. Throws
  // TZE-ENV-006. REQUIRES: a CudaContext of the GPU.
  std::unique_ptr<Workspace> take(int device, std::size_t bytes, std::size_t exchanged_bytes);
  // REQUIRES: nothing of it is in flight.
  void give_back(std::unique_ptr<Workspace> workspace);
  // Frees those that are kept.
  void clear();

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

// For the thread that creates it. Operations run in order, and are complete after finish(). Calls throw TZE-ENV-006;
// the constructor also throws TZE-AVL-001 if there are no kernels.
class Work {
 public:
  // exchanged_bytes: at the begin of the scratch memory, where it can be uploaded and downloaded. kernel_time: set by
  // finish() to the time of the kernels, unless null.
  Work(int device, std::size_t scratch_bytes, std::size_t exchanged_bytes, std::chrono::nanoseconds* kernel_time);
  // Waits, and wipes the scratch memory, even after an error.
  ~Work();
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // The device address of an offset in the scratch memory.
  std::uint64_t address(std::size_t offset) const;
  template <typename T>
  T* pointer(std::size_t offset) const {
    return reinterpret_cast<T*>(address(offset));
  }
  void upload(std::size_t offset, std::span<const std::byte> from);
  void clear(std::size_t offset, std::size_t bytes);
  // arguments: of the type that the kernel expects. REQUIRES: blocks > 0.
  template <typename Arguments>
  void launch(const Kernel& kernel, std::uint64_t blocks, Arguments arguments) {
    TZMARK_REQUIRES(blocks > 0 && blocks <= UINT32_MAX);
    launch_with(kernel, static_cast<unsigned>(blocks), &arguments);
  }
  void download(std::size_t offset, std::size_t bytes);
  // Wipes the scratch memory, and blocks until all operations are complete.
  void finish();
  // What was downloaded, valid until the object is destroyed. REQUIRES: finish() has returned.
  std::span<const std::byte> downloaded(std::size_t offset, std::size_t bytes) const;

 private:
  void launch_with(const Kernel& kernel, unsigned blocks, void* arguments);
  std::span<std::byte> host(std::size_t offset, std::size_t bytes) const;

  const CudaContext context_;
  const std::size_t bytes_, exchanged_bytes_;
  std::unique_ptr<Workspace> space_;
  std::chrono::nanoseconds* const kernel_time_;
  // Before the first kernel and after the last one, if their time is wanted.
  std::optional<CudaEvent> before_, after_;
  bool finished_ = false;
};

// Rounds an offset in the scratch memory up to the alignment of the next allocation.
constexpr std::size_t next_place(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace tzmark::gpu
