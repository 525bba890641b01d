// The calls of libcuda that copies and kernels need. The library is loaded by the first call.
//
// TZMARK_CUDA_LIBRARY replaces libcuda.so.1, for tests. GPUs have the numbers of CUDA, from 0, which
// CUDA_VISIBLE_DEVICES changes. All functions are thread-safe. Do not fork after the first call: child processes cannot
// use the GPU.
//
// The declarations are those of cuda.h of CUDA 12 and 13. Some names end in _v2, which that header hides behind a
// macro.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace tzmark {

// CUresult, CUdevice, CUdevice_attribute: int. CUcontext, CUstream, CUmodule, CUfunction: pointers. CUdeviceptr: an
// address in 64 bits.
struct CudaCalls {
  int (*init)(unsigned flags) = nullptr;
  int (*device_count)(int* count) = nullptr;
  int (*device)(int* device, int ordinal) = nullptr;
  int (*retain_primary_context)(void** context, int device) = nullptr;
  int (*current_context)(void** context) = nullptr;
  int (*device_of_context)(int* device) = nullptr;
  int (*set_current_context)(void* context) = nullptr;
  int (*allocate)(std::uint64_t* address, std::size_t bytes) = nullptr;
  int (*free)(std::uint64_t address) = nullptr;
  int (*pointer_attribute)(void* value, int attribute, std::uint64_t address) = nullptr;
  int (*address_range)(std::uint64_t* base, std::size_t* bytes, std::uint64_t address) = nullptr;
  int (*copy_to_host)(void* to, std::uint64_t from, std::size_t bytes) = nullptr;
  int (*pin)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*unpin)(void* memory) = nullptr;
  int (*create_stream)(void** stream, unsigned flags) = nullptr;
  int (*destroy_stream)(void* stream) = nullptr;
  int (*wait_for_stream)(void* stream) = nullptr;
  int (*create_event)(void** event, unsigned flags) = nullptr;
  int (*destroy_event)(void* event) = nullptr;
  int (*record_event)(void* event, void* stream) = nullptr;
  int (*wait_for_event)(void* event) = nullptr;
  int (*elapsed_milliseconds)(float* time, void* from, void* to) = nullptr;
  int (*start_copy_to_device)(std::uint64_t to, const void* from, std::size_t bytes, void* stream) = nullptr;
  int (*start_copy_to_host)(void* to, std::uint64_t from, std::size_t bytes, void* stream) = nullptr;
  int (*start_fill)(std::uint64_t to, unsigned char value, std::size_t bytes, void* stream) = nullptr;
  int (*attribute)(int* value, int attribute, int device) = nullptr;
  int (*load_module)(void** module, const void* image) = nullptr;
  int (*function)(void** function, void* module, const char* name) = nullptr;
  int (*set_function_attribute)(void* function, int attribute, int value) = nullptr;
  int (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra) = nullptr;
  int (*error_name)(int error, const char** name) = nullptr;
};

class Cuda {
 public:
  // The first call loads the library, which stays loaded.
  static const Cuda& instance();

  // The reason why there is no usable GPU; empty if there is one.
  const std::string& why_unavailable() const { return why_unavailable_; }

  // The rest REQUIRES: why_unavailable() is empty.

  int device_count() const { return static_cast<int>(primary_contexts_.size()); }
  // The primary context of a GPU, retained once and never released. Throws TZE-AVL-001, also if there is no such GPU.
  void* primary_context(int device) const;
  // The GPU whose memory lies at the address. Throws TZE-USE-001 if there is none.
  int device_of(const std::byte* data) const;
  // "CUDA_ERROR_OUT_OF_MEMORY (2)"
  std::string error_text(int error) const;
  // The same, or CudaContext::kAnyDevice.
  int device_of_or_any(const std::byte* data) const;
  struct Range {
    std::uint64_t base = 0;
    std::size_t bytes = 0;
  };
  // The allocation that contains an address; empty, from the address on, if there is none.
  Range allocation_of(std::uint64_t address) const;
  // An attribute of a GPU. which: a CUdevice_attribute. Throws TZE-ENV-006.
  int attribute(int which, int device) const;

  const CudaCalls& calls() const { return calls_; }

 private:
  Cuda();
  std::string start();

  CudaCalls calls_;
  mutable std::mutex mutex_;
  mutable std::vector<void*> primary_contexts_;  // of each GPU; null until it is needed
  std::string why_unavailable_;
};

// Makes the primary context of a GPU current in this thread as long as the object lives; then it is the one before it
// again. Never another context of the GPU: streams, events and kernels of one context are no good in another, and all
// threads shall share them.
// REQUIRES: Cuda::why_unavailable() is empty.
class CudaContext {
 public:
  // Any GPU: that of the thread's context if it has one, else GPU 0.
  static constexpr int kAnyDevice = -1;

  // Throws TZE-AVL-001.
  explicit CudaContext(int device = kAnyDevice);
  ~CudaContext();
  CudaContext(const CudaContext&) = delete;
  CudaContext& operator=(const CudaContext&) = delete;

 private:
  void* before_ = nullptr;
  bool is_changed_ = false;
};

// A CUDA stream that does not synchronize with others. For one thread at a time, with a CudaContext of its GPU, also to
// destroy it. Calls throw TZE-ENV-006.
class CudaStream {
 public:
  CudaStream();
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  void* get() const { return stream_; }
  // Blocks until all work of the stream is complete.
  void wait() const;

 private:
  void* stream_ = nullptr;
};

// A mark in a stream, to wait for what was started before it. For one thread at a time, with a CudaContext of its GPU,
// also to destroy it. Calls throw TZE-ENV-006.
class CudaEvent {
 public:
  enum class Use : std::uint8_t { kWaiting, kTiming };

  explicit CudaEvent(Use use = Use::kWaiting);
  ~CudaEvent();
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  void record(const CudaStream& stream);
  // Blocks until all work that the stream had when the event was recorded is complete.
  void wait() const;
  // The time from this event to a later one. REQUIRES: both are for timing, and what was before them is complete.
  std::chrono::nanoseconds time_until(const CudaEvent& later) const;

 private:
  void* event_ = nullptr;
};

inline std::uint64_t device_address(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }

// Throws TZE-ENV-006 with the name of the call if error is not 0.
void check_cuda(int error, const char* call);

}  // namespace tzmark
