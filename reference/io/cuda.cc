// Loading libcuda and finding a GPU.
#include "io/cuda.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/shared_library.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr int kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL

}  // namespace

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
  library.require(calls_.device_of_context, "cuCtxGetDevice");
  library.require(calls_.set_current_context, "cuCtxSetCurrent");
  library.require(calls_.allocate, "cuMemAlloc_v2");
  library.require(calls_.free, "cuMemFree_v2");
  library.require(calls_.pointer_attribute, "cuPointerGetAttribute");
  library.require(calls_.address_range, "cuMemGetAddressRange_v2");
  library.require(calls_.copy_to_host, "cuMemcpyDtoH_v2");
  library.require(calls_.pin, "cuMemHostRegister_v2");
  library.require(calls_.unpin, "cuMemHostUnregister");
  library.require(calls_.create_stream, "cuStreamCreate");
  library.require(calls_.destroy_stream, "cuStreamDestroy_v2");
  library.require(calls_.wait_for_stream, "cuStreamSynchronize");
  library.require(calls_.create_event, "cuEventCreate");
  library.require(calls_.destroy_event, "cuEventDestroy_v2");
  library.require(calls_.record_event, "cuEventRecord");
  library.require(calls_.wait_for_event, "cuEventSynchronize");
  library.require(calls_.elapsed_milliseconds, "cuEventElapsedTime");
  library.require(calls_.start_copy_to_device, "cuMemcpyHtoDAsync_v2");
  library.require(calls_.start_copy_to_host, "cuMemcpyDtoHAsync_v2");
  library.require(calls_.start_fill, "cuMemsetD8Async");
  library.require(calls_.attribute, "cuDeviceGetAttribute");
  library.require(calls_.load_module, "cuModuleLoadData");
  library.require(calls_.function, "cuModuleGetFunction");
  library.require(calls_.set_function_attribute, "cuFuncSetAttribute");
  library.require(calls_.launch, "cuLaunchKernel");
  library.look_for(calls_.error_name, "cuGetErrorName");
  if (!library.missing().empty()) return fmt::format("{} lacks {}", library.name(), fmt::join(library.missing(), ", "));

  if (const int error = calls_.init(0); error != 0) return "cuInit: " + error_text(error);
  int devices = 0;
  if (const int error = calls_.device_count(&devices); error != 0) return "cuDeviceGetCount: " + error_text(error);
  if (devices == 0) return "there is no GPU that CUDA can use";
  primary_contexts_.resize(static_cast<std::size_t>(devices));
  return {};
}

void* Cuda::primary_context(int device) const {
  const auto fail = [&](const std::string& why) {
    return Error(ErrorCode::kUnavailable, fmt::format("GPU {}: {}", device, why));
  };
  if (device < 0 || device >= device_count()) {
    throw fail(fmt::format("CUDA knows {} here, counted from 0", device_count()));
  }
  const std::lock_guard lock(mutex_);
  void*& context = primary_contexts_[static_cast<std::size_t>(device)];
  if (context != nullptr) return context;
  int handle = 0;
  if (const int error = calls_.device(&handle, device); error != 0) throw fail("cuDeviceGet: " + error_text(error));
  if (const int error = calls_.retain_primary_context(&context, handle); error != 0) {
    context = nullptr;
    throw fail("cuDevicePrimaryCtxRetain: " + error_text(error));
  }
  return context;
}

int Cuda::device_of_or_any(const std::byte* data) const {
  int device = 0;
  return calls_.pointer_attribute(&device, kDeviceOrdinal, device_address(data)) == 0 ? device
                                                                                      : CudaContext::kAnyDevice;
}

int Cuda::device_of(const std::byte* data) const {
  constexpr int kInvalidValue = 1;
  int device = 0;
  const int error = calls_.pointer_attribute(&device, kDeviceOrdinal, device_address(data));
  if (error == kInvalidValue) {
    throw Error(ErrorCode::kUsage, fmt::format("{} is not in the memory of a GPU: cuPointerGetAttribute: {}",
                                               fmt::ptr(data), error_text(error)));
  }
  check_cuda(error, "cuPointerGetAttribute");
  return device;
}

std::string Cuda::error_text(int error) const {
  const char* name = nullptr;
  if (calls_.error_name == nullptr || calls_.error_name(error, &name) != 0 || name == nullptr) {
    return fmt::format("CUDA error {}", error);
  }
  return fmt::format("{} ({})", name, error);
}

Cuda::Range Cuda::allocation_of(std::uint64_t address) const {
  Range range;
  return calls_.address_range(&range.base, &range.bytes, address) == 0 && range.base != 0 ? range : Range{address, 0};
}

int Cuda::attribute(int which, int device) const {
  int value = 0, handle = 0;
  check_cuda(calls_.device(&handle, device), "cuDeviceGet");
  check_cuda(calls_.attribute(&value, which, handle), "cuDeviceGetAttribute");
  return value;
}

CudaContext::CudaContext(int device) {
  const Cuda& cuda = Cuda::instance();
  const auto check = [&](int error) {
    if (error != 0) {
      throw Error(ErrorCode::kUnavailable, "no CUDA context in this thread: " + cuda.error_text(error));
    }
  };
  check(cuda.calls().current_context(&before_));
  if (device == kAnyDevice) {
    device = 0;
    if (before_ != nullptr) check(cuda.calls().device_of_context(&device));
  }
  void* const wanted = cuda.primary_context(device);
  if (before_ == wanted) return;
  check(cuda.calls().set_current_context(wanted));
  is_changed_ = true;
}

CudaContext::~CudaContext() {
  if (is_changed_) static_cast<void>(Cuda::instance().calls().set_current_context(before_));
}

CudaStream::CudaStream() {
  constexpr unsigned kNonBlocking = 1;  // CU_STREAM_NON_BLOCKING
  check_cuda(Cuda::instance().calls().create_stream(&stream_, kNonBlocking), "cuStreamCreate");
}
CudaStream::~CudaStream() { static_cast<void>(Cuda::instance().calls().destroy_stream(stream_)); }

void CudaStream::wait() const { check_cuda(Cuda::instance().calls().wait_for_stream(stream_), "cuStreamSynchronize"); }

CudaEvent::CudaEvent(Use use) {
  constexpr unsigned kDisableTiming = 2;  // CU_EVENT_DISABLE_TIMING
  check_cuda(Cuda::instance().calls().create_event(&event_, use == Use::kTiming ? 0 : kDisableTiming), "cuEventCreate");
}
CudaEvent::~CudaEvent() { static_cast<void>(Cuda::instance().calls().destroy_event(event_)); }

void CudaEvent::record(const CudaStream& stream) {
  check_cuda(Cuda::instance().calls().record_event(event_, stream.get()), "cuEventRecord");
}

void CudaEvent::wait() const { check_cuda(Cuda::instance().calls().wait_for_event(event_), "cuEventSynchronize"); }

std::chrono::nanoseconds CudaEvent::time_until(const CudaEvent& later) const {
  float milliseconds = 0;
  check_cuda(Cuda::instance().calls().elapsed_milliseconds(&milliseconds, event_, later.event_), "cuEventElapsedTime");
  return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double, std::milli>(milliseconds));
}

void check_cuda(int error, const char* call) {
  if (error == 0) return;
  throw Error(ErrorCode::kResource, fmt::format("{}: {}", call, Cuda::instance().error_text(error)));
}

}  // namespace tzmark
