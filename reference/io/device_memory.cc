// GPU memory from the allocator of libcuda.
#include "tzmark/device_memory.h"

#include <fmt/format.h>

#include <utility>

#include "bytes/requires.h"
#include "io/cuda.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

const Cuda& usable_cuda() {
  const Cuda& cuda = Cuda::instance();
  if (!cuda.why_unavailable().empty()) throw Error(ErrorCode::kUnavailable, cuda.why_unavailable());
  cuda.make_context_current();
  return cuda;
}

}  // namespace

std::string DeviceMemory::why_unavailable() { return Cuda::instance().why_unavailable(); }

DeviceMemory::DeviceMemory(std::size_t bytes) : size_(bytes) {
  const Cuda& cuda = usable_cuda();
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
    Cuda::instance().make_context_current();
    static_cast<void>(Cuda::instance().calls().free(device_address(data_)));
  } catch (const Error&) {
  }
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MutableBuffer DeviceMemory::buffer() const { return {data_, size_, MemoryKind::kDevice}; }

void DeviceMemory::copy_from_host(std::size_t offset, std::span<const std::byte> bytes) {
  tzmark::copy_from_host(bytes, buffer().sub(offset, bytes.size()));
}

void DeviceMemory::copy_to_host(std::size_t offset, std::span<std::byte> bytes) const {
  tzmark::copy_to_host(buffer().sub(offset, bytes.size()), bytes);
}

void copy_to_host(ConstBuffer from, std::span<std::byte> to) {
  TZMARK_REQUIRES(from.kind == MemoryKind::kDevice && to.size() == from.size);
  if (from.size == 0) return;
  check_cuda(usable_cuda().calls().copy_to_host(to.data(), device_address(from.data), from.size), "cuMemcpyDtoH");
}

void copy_from_host(std::span<const std::byte> from, MutableBuffer to) {
  TZMARK_REQUIRES(to.kind == MemoryKind::kDevice && from.size() == to.size);
  if (from.empty()) return;
  check_cuda(usable_cuda().calls().copy_to_device(device_address(to.data), from.data(), from.size()), "cuMemcpyHtoD");
}

void fill_with_zeros(MutableBuffer memory) {
  TZMARK_REQUIRES(memory.kind == MemoryKind::kDevice);
  if (memory.size == 0) return;
  const Cuda& cuda = usable_cuda();
  const CudaStream stream;
  check_cuda(cuda.calls().start_fill(device_address(memory.data), 0, memory.size, stream.get()), "cuMemsetD8Async");
  stream.wait();
}

PinnedRange::PinnedRange(std::span<std::byte> memory) {
  const Cuda& cuda = usable_cuda();
  if (memory.empty()) return;
  if (const int error = cuda.calls().pin(memory.data(), memory.size(), 0); error != 0) {
    throw Error(ErrorCode::kResource, fmt::format("pinning {} bytes: {}", memory.size(), cuda.error_text(error)));
  }
  memory_ = memory.data();
}

PinnedRange::~PinnedRange() {
  if (memory_ == nullptr) return;
  // A destructor cannot report that unpinning failed.
  try {
    static_cast<void>(usable_cuda().calls().unpin(memory_));
  } catch (const Error&) {
  }
}

PinnedRange::PinnedRange(PinnedRange&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}

PinnedRange& PinnedRange::operator=(PinnedRange&& other) noexcept {
  std::swap(memory_, other.memory_);
  return *this;
}

}  // namespace tzmark
