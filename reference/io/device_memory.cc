// GPU memory from the allocator of libcuda.
#include "tzmark/device_memory.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "bytes/requires.h"
#include "io/cuda.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

const Cuda& usable_cuda() {
  const Cuda& cuda = Cuda::instance();
  if (!cuda.why_unavailable().empty()) throw Error(ErrorCode::kUnavailable, cuda.why_unavailable());
  return cuda;
}

}  // namespace

std::string DeviceMemory::why_unavailable() { return Cuda::instance().why_unavailable(); }

DeviceMemory::DeviceMemory(std::size_t bytes, int device) : size_(bytes), device_(device) {
  const Cuda& cuda = usable_cuda();
  static_cast<void>(cuda.primary_context(device));  // which refuses kAnyDevice: the number is told to others
  const CudaContext context(device);
  // The driver refuses an empty allocation.
  if (bytes == 0) return;
  std::uint64_t address = 0;
  if (const int error = cuda.calls().allocate(&address, bytes); error != 0) {
    throw Error(ErrorCode::kResource, fmt::format("{} bytes of GPU memory: {}", bytes, cuda.error_text(error)));
  }
  data_ = reinterpret_cast<std::byte*>(address);
}

DeviceMemory::~DeviceMemory() {
  if (data_ == nullptr) return;
  // A destructor cannot report that freeing failed.
  try {
    const CudaContext context(device_);
    static_cast<void>(Cuda::instance().calls().free(device_address(data_)));
  } catch (const Error&) {
  }
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)), device_(other.device_) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(device_, other.device_);
  return *this;
}

MutableBuffer DeviceMemory::buffer() const { return {data_, size_, MemoryKind::kDevice}; }

void DeviceMemory::copy_from_host(std::size_t offset, std::span<const std::byte> bytes) {
  tzmark::copy_from_host(bytes, buffer().sub(offset, bytes.size()));
}

void DeviceMemory::copy_to_host(std::size_t offset, std::span<std::byte> bytes) const {
  tzmark::copy_to_host(buffer().sub(offset, bytes.size()), bytes);
}

int device_of(ConstBuffer memory) {
  TZMARK_REQUIRES(memory.kind == MemoryKind::kDevice);
  return memory.size == 0 ? 0 : usable_cuda().device_of(memory.data);
}

void copy_to_host(ConstBuffer from, std::span<std::byte> to) {
  TZMARK_REQUIRES(from.kind == MemoryKind::kDevice && to.size() == from.size);
  if (from.size == 0) return;
  const CudaContext context(device_of(from));
  check_cuda(usable_cuda().calls().copy_to_host(to.data(), device_address(from.data), from.size), "cuMemcpyDtoH");
}

void copy_to_host(std::span<const CopyToHost> copies) {
  for (std::size_t first = 0; first < copies.size();) {
    // Those of one GPU that follow each other share a stream.
    const int device = device_of(copies[first].from);
    const CudaContext context(device);
    const CudaStream stream;
    std::size_t next = first;
    // Destroying the stream does not end what it has started, so an error waits for that.
    std::exception_ptr error;
    try {
      for (; next < copies.size() && (copies[next].from.size == 0 || device_of(copies[next].from) == device); ++next) {
        const auto& [from, to] = copies[next];
        TZMARK_REQUIRES(from.kind == MemoryKind::kDevice && to.size() == from.size);
        if (from.size == 0) continue;
        check_cuda(
            usable_cuda().calls().start_copy_to_host(to.data(), device_address(from.data), from.size, stream.get()),
            "cuMemcpyDtoHAsync");
      }
    } catch (...) {
      error = std::current_exception();
    }
    stream.wait();
    if (error) std::rethrow_exception(error);
    first = next;
  }
}

void copy_from_host(std::span<const std::byte> from, MutableBuffer to) {
  TZMARK_REQUIRES(to.kind == MemoryKind::kDevice && from.size() == to.size);
  if (from.empty()) return;
  const CudaContext context(device_of(to));
  // cuMemcpyHtoD may return before the last bytes of memory that is not pinned have arrived.
  const CudaStream stream;
  check_cuda(
      usable_cuda().calls().start_copy_to_device(device_address(to.data), from.data(), from.size(), stream.get()),
      "cuMemcpyHtoDAsync");
  stream.wait();
}

void fill_with_zeros(MutableBuffer memory) {
  TZMARK_REQUIRES(memory.kind == MemoryKind::kDevice);
  if (memory.size == 0) return;
  const CudaContext context(device_of(memory));
  const CudaStream stream;
  check_cuda(usable_cuda().calls().start_fill(device_address(memory.data), 0, memory.size, stream.get()),
             "cuMemsetD8Async");
  stream.wait();
}

void wait_for_stream(ConstBuffer memory, std::uintptr_t stream) {
  const CudaContext context(device_of(memory));
  check_cuda(usable_cuda().calls().wait_for_stream(reinterpret_cast<void*>(stream)), "cuStreamSynchronize");
}

PinnedRange::PinnedRange(std::span<std::byte> memory, std::optional<int> device) {
  constexpr unsigned kPortable = 1;  // CU_MEMHOSTREGISTER_PORTABLE: for the contexts of all GPUs
  const Cuda& cuda = usable_cuda();
  const CudaContext context(device.value_or(CudaContext::kAnyDevice));
  if (memory.empty()) return;
  if (const int error = cuda.calls().pin(memory.data(), memory.size(), kPortable); error != 0) {
    throw Error(ErrorCode::kResource, fmt::format("pinning {} bytes: {}", memory.size(), cuda.error_text(error)));
  }
  memory_ = memory.data();
  device_ = device;
}

PinnedRange::~PinnedRange() {
  if (memory_ == nullptr) return;
  // A destructor cannot report that unpinning failed.
  try {
    const CudaContext context(device_.value_or(CudaContext::kAnyDevice));
    static_cast<void>(usable_cuda().calls().unpin(memory_));
  } catch (const Error&) {
  }
}

PinnedRange::PinnedRange(PinnedRange&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), device_(other.device_) {}

PinnedRange& PinnedRange::operator=(PinnedRange&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(device_, other.device_);
  return *this;
}

}  // namespace tzmark
