// The calls of libcuda that copies and kernels need. The library is loaded by the first call.
//
// TZMARK_CUDA_LIBRARY replaces libcuda.so.1, for tests. GPU 0 is used; CUDA_VISIBLE_DEVICES selects it. All functions
// are thread-safe. Do not fork after the first call: child processes cannot use the GPU.
//
// The declarations are those of cuda.h of CUDA 12 and 13. Some names end in _v2, which that header hides behind a
// macro.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tzmark {

// CUresult, CUdevice, CUdevice_attribute: int. CUcontext, CUstream, CUmodule, CUfunction: pointers. CUdeviceptr: an
// address in 64 bits.
struct CudaCalls {
  int (*init)(unsigned flags) = nullptr;
  int (*device_count)(int* count) = nullptr;
  int (*device)(int* device, int ordinal) = nullptr;
  int (*retain_primary_context)(void** context, int device) = nullptr;
  int (*current_context)(void** context) = nullptr;
  int (*set_current_context)(void* context) = nullptr;
  int (*allocate)(std::uint64_t* address, std::size_t bytes) = nullptr;
  int (*free)(std::uint64_t address) = nullptr;
  int (*address_range)(std::uint64_t* base, std::size_t* bytes, std::uint64_t address) = nullptr;
  int (*copy_to_device)(std::uint64_t to, const void* from, std::size_t bytes) = nullptr;
  int (*copy_to_host)(void* to, std::uint64_t from, std::size_t bytes) = nullptr;
  int (*pin)(void* memory, std::size_t bytes, unsigned flags) = nullptr;
  int (*unpin)(void* memory) = nullptr;
  int (*create_stream)(void** stream, unsigned flags) = nullptr;
  int (*destroy_stream)(void* stream) = nullptr;
  int (*wait_for_stream)(void* stream) = nullptr;
  int (*start_copy_to_device)(std::uint64_t to, const void* from, std::size_t bytes, void* stream) = nullptr;
  int (*start_copy_to_host)(void* to, std::uint64_t from, std::size_t bytes, void* stream) = nullptr;
  int (*start_fill)(std::uint64_t to, unsigned char value, std::size_t bytes, void* stream) = nullptr;
  int (*attribute)(int* value, int attribute, int device) = nullptr;
  int (*load_module)(void** module, const void* image) = nullptr;
  int (*function)(void** function, void* module, const char* name) = nullptr;
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

  // Makes the primary context of GPU 0 current, unless the thread has a context. Throws TZE-AVL-001.
  void make_context_current() const;
  // "CUDA_ERROR_OUT_OF_MEMORY (2)"
  std::string error_text(int error) const;
  // The base of the allocation that contains an address; the address itself if there is none.
  std::uint64_t allocation_base(std::uint64_t address) const;
  // An attribute of the GPU. which: a CUdevice_attribute. Throws TZE-ENV-006.
  int attribute(int which) const;

  const CudaCalls& calls() const { return calls_; }

 private:
  Cuda();
  std::string start();

  CudaCalls calls_;
  void* context_ = nullptr;  // the primary one, retained once and never released
  int device_ = 0;
  std::string why_unavailable_;
};

// A CUDA stream that does not synchronize with others. For one thread at a time, which must have a current context
// (make_context_current), also to destroy it. Calls throw TZE-ENV-006.
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

inline std::uint64_t device_address(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }

// Throws TZE-ENV-006 with the name of the call if error is not 0.
void check_cuda(int error, const char* call);

}  // namespace tzmark
