// For tests: a libcuda whose devices are ordinary memory.
//
// What it allocates is memory that is mapped twice: at the address that it tells, where no CPU may touch it, so that
// code that takes device memory for host memory crashes; and where copies and the stand-in of libcufile find the bytes.
// While a kernel runs, on the host, the first mapping is open too.
// TZMARK_FAKE_CUDA_ERROR: what cuInit returns. TZMARK_FAKE_DEVICES: how many devices there are (1).
// TZMARK_FAKE_MODULE_ERROR: what cuModuleLoadData returns. TZMARK_FAKE_LOSES: a kernel that is not there.
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string_view>

#include "testing/gpu/fake.h"

namespace {

using tzmark::test::FakeCudaOrders;
using tzmark::test::FakeKernel;

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidDevice = 101, kInvalidImage = 200,
              kInvalidContext = 201, kNoBinaryForGpu = 209, kNotFound = 500;
char context_object = 0;
char stream_object = 0;
char module_object = 0;
// In the static block of each thread, because ThreadSanitizer of GCC 12 mistakes the extent of blocks that dlopen adds
// while threads start, and then maps terabytes.
__attribute__((tls_model("initial-exec"))) thread_local void* context = nullptr;

struct Allocation {
  std::size_t bytes;
  std::byte* content;  // the same memory, where the CPU may touch it
};
std::mutex mutex;
std::map<std::uint64_t, Allocation> allocations;
int launches_running = 0;
std::map<void*, std::size_t> pinned;

// The allocation that an address lies in, or the end. REQUIRES: the mutex is held.
std::map<std::uint64_t, Allocation>::iterator find(std::uint64_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return allocations.end();
  --next;
  return address < next->first + next->second.bytes ? next : allocations.end();
}

// REQUIRES: the mutex is held.
void protect(std::uint64_t address, std::size_t bytes) {
  const int access = launches_running == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
  if (::mprotect(reinterpret_cast<void*>(address), bytes, access) != 0) std::abort();
}

// As long as it lives, kernels can touch device memory at its address.
class Launch {
 public:
  Launch() {
    const std::lock_guard lock(mutex);
    if (++launches_running == 1) protect_all();
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() {
    const std::lock_guard lock(mutex);
    if (--launches_running == 0) protect_all();
  }

 private:
  static void protect_all() {
    for (const auto& [address, allocation] : allocations) protect(address, allocation.bytes);
  }
};

FakeCudaOrders& orders() {
  static FakeCudaOrders object;
  return object;
}

// What a call returns before it does anything: 0 if it is to go on.
int refusal() {
  if (orders().calls++ == orders().fail_call) return orders().fail_with;
  return context == nullptr ? kInvalidContext : 0;
}

int from_environment(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::atoi(text);
}

}  // namespace

extern "C" {

std::byte* tzmark_fake_device_bytes(std::uint64_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  const auto found = find(address);
  if (found == allocations.end() || address + bytes > found->first + found->second.bytes) return nullptr;
  return found->second.content + (address - found->first);
}

std::size_t tzmark_fake_pinned_bytes() {
  const std::lock_guard lock(mutex);
  std::size_t bytes = 0;
  for (const auto& range : pinned) bytes += range.second;
  return bytes;
}

bool tzmark_fake_has_context() { return context != nullptr; }

FakeCudaOrders* tzmark_fake_cuda_orders() { return &orders(); }

int cuInit(unsigned) { return from_environment("TZMARK_FAKE_CUDA_ERROR", 0); }

int cuDeviceGetCount(int* count) {
  *count = from_environment("TZMARK_FAKE_DEVICES", 1);
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
  if (const int error = refusal(); error != 0) return error;
  if (bytes == 0) return kInvalidValue;
  if (bytes > std::size_t{1} << 40) return kOutOfMemory;
  void* const reserved = ::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return kOutOfMemory;
  // Of a shared mapping, "growing" nothing makes a second one of the same memory.
  void* const content = ::mremap(reserved, 0, bytes, MREMAP_MAYMOVE);
  if (content == MAP_FAILED || ::mprotect(content, bytes, PROT_READ | PROT_WRITE) != 0) std::abort();
  const std::lock_guard lock(mutex);
  *address = reinterpret_cast<std::uintptr_t>(reserved);
  allocations[*address] = {bytes, static_cast<std::byte*>(content)};
  protect(*address, bytes);
  ++orders().allocations;
  return 0;
}

int cuMemFree_v2(std::uint64_t address) {
  const std::lock_guard lock(mutex);
  const auto found = allocations.find(address);
  if (found == allocations.end()) return kInvalidValue;
  const auto [bytes, content] = found->second;
  const FakeCudaOrders& order = orders();
  if (order.secret != nullptr &&
      std::search(content, content + bytes, order.secret, order.secret + order.secret_bytes) != content + bytes) {
    ++orders().secrets_left;
  }
  ::munmap(reinterpret_cast<void*>(address), bytes);
  ::munmap(content, bytes);
  allocations.erase(found);
  --orders().allocations;
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
  if (const int error = refusal(); error != 0) return error;
  std::byte* const inside = tzmark_fake_device_bytes(to, bytes);
  if (inside == nullptr) return kInvalidValue;
  std::memcpy(inside, from, bytes);
  return 0;
}

int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  if (const int error = refusal(); error != 0) return error;
  const std::byte* const inside = tzmark_fake_device_bytes(from, bytes);
  if (inside == nullptr) return kInvalidValue;
  std::memcpy(to, inside, bytes);
  return 0;
}

// Nothing runs concurrently with the caller: a started operation is complete.
int cuStreamCreate(void** stream, unsigned) {
  if (const int error = refusal(); error != 0) return error;
  *stream = &stream_object;
  ++orders().streams;
  return 0;
}

int cuStreamDestroy_v2(void*) {
  --orders().streams;
  return 0;
}

int cuStreamSynchronize(void* stream) {
  if (const int error = refusal(); error != 0) return error;
  return stream == &stream_object ? 0 : kInvalidValue;
}

int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void*) {
  return cuMemcpyHtoD_v2(to, from, bytes);
}

int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void*) {
  return cuMemcpyDtoH_v2(to, from, bytes);
}

int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void*) {
  if (const int error = refusal(); error != 0) return error;
  std::byte* const inside = tzmark_fake_device_bytes(to, bytes);
  if (inside == nullptr) return kInvalidValue;
  std::memset(inside, value, bytes);
  return 0;
}

int cuDeviceGetAttribute(int* value, int, int) {
  *value = 2;
  return 0;
}

// It runs kernels of its own, but it does not take anything for kernels.
int cuModuleLoadData(void** module, const void* image) {
  if (const int error = from_environment("TZMARK_FAKE_MODULE_ERROR", 0); error != 0) return error;
  constexpr std::uint32_t kFatbinMagic = 0xBA55ED50;
  constexpr std::string_view kOfTheFake = "kernels of the stand-in";
  std::uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kFatbinMagic && kOfTheFake != static_cast<const char*>(image)) return kInvalidImage;
  *module = &module_object;
  return 0;
}

int cuModuleGetFunction(void** function, void*, const char* name) {
  const char* const lost = std::getenv("TZMARK_FAKE_LOSES");
  const FakeKernel* const kernel = tzmark_fake_kernel(name);
  if (kernel == nullptr || (lost != nullptr && std::strcmp(lost, name) == 0)) return kNotFound;
  *function = const_cast<FakeKernel*>(kernel);
  return 0;
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned, void* stream, void** parameters, void**) {
  if (const int error = refusal(); error != 0) return error;
  const FakeKernel& kernel = *static_cast<const FakeKernel*>(function);
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != kernel.threads || block_y != 1 || block_z != 1 ||
      stream != &stream_object) {
    return kInvalidValue;
  }
  ++orders().launches;
  if (orders().forgets_launches) return 0;
  const Launch launch;
  kernel.run(grid_x, parameters[0]);
  return 0;
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
    case kNoBinaryForGpu:
      *name = "CUDA_ERROR_NO_BINARY_FOR_GPU";
      return 0;
    case kNotFound:
      *name = "CUDA_ERROR_NOT_FOUND";
      return 0;
    default:
      return kInvalidValue;
  }
}

}  // extern "C"
