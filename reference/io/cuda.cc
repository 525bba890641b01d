// Loading libcuda and finding a GPU.
#include "io/cuda.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/shared_library.h"
#include "tzmark/error.h"

namespace tzmark {

const Cuda& Cuda::instance() {
  // Never destroyed: threads of the libraries may outlive main.
  static const Cuda* const cuda = new Cuda;
  return *cuda;
}

Cuda::Cuda() { why_unavailable_ = start(); }

std::string Cuda::start() {
  SharedLibrary library("libcuda.so.1", "TZMARK_CUDA_LIBRARY");
  if (!library.why_not_loaded().empty()) return "there is no CUDA driver: " + library.why_not_loaded();
  library.require(calls_.init, "cuInit");
  library.require(calls_.device_count, "cuDeviceGetCount");
  library.require(calls_.device, "cuDeviceGet");
  library.require(calls_.retain_primary_context, "cuDevicePrimaryCtxRetain");
  library.require(calls_.current_context, "cuCtxGetCurrent");
  library.require(calls_.set_current_context, "cuCtxSetCurrent");
  library.require(calls_.allocate, "cuMemAlloc_v2");
  library.require(calls_.free, "cuMemFree_v2");
  library.require(calls_.address_range, "cuMemGetAddressRange_v2");
  library.require(calls_.copy_to_device, "cuMemcpyHtoD_v2");
  library.require(calls_.copy_to_host, "cuMemcpyDtoH_v2");
  library.require(calls_.pin, "cuMemHostRegister_v2");
  library.require(calls_.unpin, "cuMemHostUnregister");
  library.require(calls_.create_stream, "cuStreamCreate");
  library.require(calls_.destroy_stream, "cuStreamDestroy_v2");
  library.require(calls_.wait_for_stream, "cuStreamSynchronize");
  library.require(calls_.start_copy_to_device, "cuMemcpyHtoDAsync_v2");
  library.require(calls_.start_copy_to_host, "cuMemcpyDtoHAsync_v2");
  library.require(calls_.start_fill, "cuMemsetD8Async");
  library.require(calls_.attribute, "cuDeviceGetAttribute");
  library.require(calls_.load_module, "cuModuleLoadData");
  library.require(calls_.function, "cuModuleGetFunction");
  library.require(calls_.launch, "cuLaunchKernel");
  library.look_for(calls_.error_name, "cuGetErrorName");
  if (!library.missing().empty()) return fmt::format("{} lacks {}", library.name(), fmt::join(library.missing(), ", "));

  if (const int error = calls_.init(0); error != 0) return "cuInit: " + error_text(error);
  int devices = 0;
  if (const int error = calls_.device_count(&devices); error != 0) return "cuDeviceGetCount: " + error_text(error);
  if (devices == 0) return "there is no GPU that CUDA can use";
  if (const int error = calls_.device(&device_, 0); error != 0) return "cuDeviceGet: " + error_text(error);
  if (const int error = calls_.retain_primary_context(&context_, device_); error != 0) {
    return "cuDevicePrimaryCtxRetain: " + error_text(error);
  }
  return {};
}

void Cuda::make_context_current() const {
  // Checked each time, since other code of this thread may have changed its context.
  void* current = nullptr;
  int error = calls_.current_context(&current);
  if (error == 0 && current == nullptr) error = calls_.set_current_context(context_);
  if (error != 0) {
    throw Error(ErrorCode::kUnavailable, "no CUDA context in this thread: " + error_text(error));
  }
}

std::string Cuda::error_text(int error) const {
  const char* name = nullptr;
  if (calls_.error_name == nullptr || calls_.error_name(error, &name) != 0 || name == nullptr) {
    return fmt::format("CUDA error {}", error);
  }
  return fmt::format("{} ({})", name, error);
}

std::uint64_t Cuda::allocation_base(std::uint64_t address) const {
  std::uint64_t base = 0;
  std::size_t bytes = 0;
  return calls_.address_range(&base, &bytes, address) == 0 && base != 0 ? base : address;
}

int Cuda::attribute(int which) const {
  int value = 0;
  check_cuda(calls_.attribute(&value, which, device_), "cuDeviceGetAttribute");
  return value;
}

CudaStream::CudaStream() {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  check_cuda(Cuda::instance().calls().create_stream(&stream_, kNonBlocking), "cuStreamCreate");
}
CudaStream::~CudaStream() { static_cast<void>(Cuda::instance().calls().destroy_stream(stream_)); }

void CudaStream::wait() const { check_cuda(Cuda::instance().calls().wait_for_stream(stream_), "cuStreamSynchronize"); }

void check_cuda(int error, const char* call) {
  if (error == 0) return;
  throw Error(ErrorCode::kResource, fmt::format("{}: {}", call, Cuda::instance().error_text(error)));
}

}  // namespace tzmark
