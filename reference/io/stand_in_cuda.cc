// For tests: a libcuda whose devices are ordinary memory.
//
// What it allocates is an address that no CPU may touch, and bytes beside it, so that whoever takes device memory for
// host memory crashes. Allocations stay in a table: copies and the stand-in of libcufile find the bytes there.
// TZMARK_STAND_IN_CUDA_ERROR: what cuInit returns. TZMARK_STAND_IN_DEVICES: how many devices there are (1).
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "io/stand_in.h"

namespace {

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidDevice = 101, kInvalidContext = 201,
              kNotSupported = 801;
char context_object = 0;
char stream_object = 0;
thread_local void* context = nullptr;

struct Allocation {
  std::size_t bytes;
  std::vector<std::byte> content;
};
std::mutex mutex;
std::map<std::uint64_t, Allocation> allocations;
std::map<void*, std::size_t> pinned;

// The allocation that an address lies in, or the end. REQUIRES: the mutex is held.
std::map<std::uint64_t, Allocation>::iterator find(std::uint64_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return allocations.end();
  --next;
  return address < next->first + next->second.bytes ? next : allocations.end();
}

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" {

std::byte* tzmark_stand_in_device_bytes(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = find(address);
  if (found == allocations.end() || address + bytes > found->first + found->second.bytes) return nullptr;
  return found->second.content.data() + (address - found->first);
}

std::size_t tzmark_stand_in_pinned_bytes() {
  const std::lock_guard lock(mutex);
  std::size_t bytes = 0;
  for (const auto& range : pinned) bytes += range.second;
  return bytes;
}

bool tzmark_stand_in_has_context() { return context != nullptr; }

int cuInit(unsigned) { return from_environment("TZMARK_STAND_IN_CUDA_ERROR", 0); }

int cuDeviceGetCount(int* count) {
  *count = from_environment("TZMARK_STAND_IN_DEVICES", 1);
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? 0 : kInvalidDevice;
}

int cuDevicePrimaryCtxRetain(void** retained, int) {
  *retained = &context_object;
  return 0;
}

int cuCtxGetCurrent(void** current) {
  *current = context;
  return 0;
}

int cuCtxSetCurrent(void* current) {
  context = current;
  return 0;
}

int cuMemAlloc_v2(std::uint64_t* address, std::size_t bytes) {
  if (context == nullptr) return kInvalidContext;
  if (bytes == 0) return kInvalidValue;
  void* const reserved = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED || bytes > std::size_t{1} << 40) return kOutOfMemory;
  const std::lock_guard lock(mutex);
  *address = reinterpret_cast<std::uintptr_t>(reserved);
  allocations[*address] = {bytes, std::vector<std::byte>(bytes)};
  return 0;
}

int cuMemFree_v2(std::uint64_t address) {
  const std::lock_guard lock(mutex);
  const auto found = allocations.find(address);
  if (found == allocations.end()) return kInvalidValue;
  ::munmap(reinterpret_cast<void*>(address), found->second.bytes);
  allocations.erase(found);
  return 0;
}

int cuMemGetAddressRange_v2(std::uint64_t* base, std::size_t* bytes, std::uint64_t address) {
  const std::lock_guard lock(mutex);
  const auto found = find(address);
  if (found == allocations.end()) return kInvalidValue;
  *base = found->first;
  *bytes = found->second.bytes;
  return 0;
}

int cuMemcpyHtoD_v2(std::uint64_t to, const void* from, std::size_t bytes) {
  std::byte* const inside = tzmark_stand_in_device_bytes(to, bytes);
  if (context == nullptr) return kInvalidContext;
  if (inside == nullptr) return kInvalidValue;
  std::memcpy(inside, from, bytes);
  return 0;
}

int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  const std::byte* const inside = tzmark_stand_in_device_bytes(from, bytes);
  if (context == nullptr) return kInvalidContext;
  if (inside == nullptr) return kInvalidValue;
  std::memcpy(to, inside, bytes);
  return 0;
}

// There is nothing beside the caller to go on with: what is started is done.
int cuStreamCreate(void** stream, unsigned) {
  if (context == nullptr) return kInvalidContext;
  *stream = &stream_object;
  return 0;
}
int cuStreamDestroy_v2(void*) { return 0; }
int cuStreamSynchronize(void* stream) { return stream == &stream_object ? 0 : kInvalidValue; }
int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void*) {
  return cuMemcpyHtoD_v2(to, from, bytes);
}
int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void*) {
  return cuMemcpyDtoH_v2(to, from, bytes);
}
int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void*) {
  std::byte* const inside = tzmark_stand_in_device_bytes(to, bytes);
  if (context == nullptr) return kInvalidContext;
  if (inside == nullptr) return kInvalidValue;
  std::memset(inside, value, bytes);
  return 0;
}
int cuDeviceGetAttribute(int* value, int, int) {
  *value = 2;
  return 0;
}
int cuModuleLoadData(void**, const void*) { return kNotSupported; }
int cuModuleGetFunction(void**, void*, const char*) { return kNotSupported; }
int cuLaunchKernel(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**, void**) {
  return kNotSupported;
}

int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  if (context == nullptr) return kInvalidContext;
  const std::lock_guard lock(mutex);
  return bytes != 0 && pinned.emplace(memory, bytes).second ? 0 : kInvalidValue;
}

int cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(mutex);
  return pinned.erase(memory) == 1 ? 0 : kInvalidValue;
}

int cuGetErrorName(int error, const char** name) {
  switch (error) {
    case kInvalidValue:
      *name = "CUDA_ERROR_INVALID_VALUE";
      return 0;
    case kOutOfMemory:
      *name = "CUDA_ERROR_OUT_OF_MEMORY";
      return 0;
    case kNoDevice:
      *name = "CUDA_ERROR_NO_DEVICE";
      return 0;
    default:
      return kInvalidValue;
  }
}

}  // extern "C"
