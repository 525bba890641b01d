// For tests: a libcuda whose devices are ordinary memory.
//
// What it allocates is memory that is mapped twice: at the address that it tells, where no CPU may touch it, so that
// code that takes device memory for host memory crashes; and where copies and the stand-in of libcufile find the bytes.
// While a kernel runs, on the host, the first mapping is open too.
// Each device has memory of its own: a kernel that touches that of another device crashes, and streams, events and
// functions of one device are refused where the context of another one is current.
// TZMARK_FAKE_CUDA_ERROR: what cuInit returns. TZMARK_FAKE_DEVICES: how many devices there are (1, at most 32).
// TZMARK_FAKE_MODULE_ERROR: what cuModuleLoadData returns. TZMARK_FAKE_LOSES: a kernel that is not there.
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "testing/gpu/fake.h"

namespace {

using tzmark::test::FakeCudaOrders;
using tzmark::test::FakeKernel;

constexpr int kInvalidValue = 1, kOutOfMemory = 2, kNoDevice = 100, kInvalidDevice = 101, kInvalidImage = 200,
              kInvalidContext = 201, kNoBinaryForGpu = 209, kNotFound = 500;
constexpr int kInvalidHandle = 400;
constexpr int kDevicesMax = 32;
// Of each device, its primary context and its module.
std::array<char, kDevicesMax> contexts;
std::array<char, kDevicesMax> modules;
// In the static block of each thread, because ThreadSanitizer of GCC 12 mistakes the extent of blocks that dlopen adds
// while threads start, and then maps terabytes.
__attribute__((tls_model("initial-exec"))) thread_local void* context = nullptr;

// The device of the current context. REQUIRES: there is one.
int current_device() { return static_cast<int>(static_cast<char*>(context) - contexts.data()); }

struct Allocation {
  int device;
  std::size_t bytes;
  std::byte* content;  // the same memory, where the CPU may touch it
};
std::mutex mutex;
std::map<std::uint64_t, Allocation> allocations;
std::array<int, kDevicesMax> launches_running;
std::map<void*, std::size_t> pinned;

// Operations that were started and have not happened yet, in order. Those before `first` have happened.
struct Stream {
  const int device = current_device();
  std::mutex mutex;
  std::deque<std::function<void()>> waiting;
  std::uint64_t first = 0;

  std::uint64_t end() {
    const std::lock_guard lock(mutex);
    return first + waiting.size();
  }
  // Lets all operations before that one happen.
  void run_to(std::uint64_t position) {
    const std::lock_guard lock(mutex);
    for (; first < position && !waiting.empty(); ++first) {
      waiting.front()();
      waiting.pop_front();
    }
  }
  void run() { run_to(~std::uint64_t{0}); }
};
struct Event {
  int device = current_device();
  Stream* stream = nullptr;
  std::uint64_t position = 0;
  std::chrono::steady_clock::time_point time{};
  bool is_timed = false;
};
std::set<void*> streams, events;

// REQUIRES: the mutex is not held.
bool is_known(const std::set<void*>& objects, void* object) {
  const std::lock_guard lock(mutex);
  return objects.contains(object);
}
// Whether a stream or event is of the device whose context is current.
bool is_stream_here(void* stream) {
  return is_known(streams, stream) && static_cast<Stream*>(stream)->device == current_device();
}
bool is_event_here(void* event) {
  return is_known(events, event) && static_cast<Event*>(event)->device == current_device();
}

// A kernel that was loaded on a device.
struct Function {
  int device;
  const FakeKernel* kernel;
  unsigned shared_bytes_max = 48 << 10;
};

bool is_pinned(const void* memory, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  auto next = pinned.upper_bound(const_cast<void*>(memory));
  if (next == pinned.begin()) return false;
  --next;
  return static_cast<const char*>(memory) + bytes <= static_cast<const char*>(next->first) + next->second;
}

// The allocation that an address lies in, or the end. REQUIRES: the mutex is held.
std::map<std::uint64_t, Allocation>::iterator find(std::uint64_t address) {
  auto next = allocations.upper_bound(address);
  if (next == allocations.begin()) return allocations.end();
  --next;
  return address < next->first + next->second.bytes ? next : allocations.end();
}

// REQUIRES: the mutex is held.
void protect(std::uint64_t address, const Allocation& allocation) {
  const bool is_open = launches_running[static_cast<std::size_t>(allocation.device)] > 0;
  const int access = is_open ? PROT_READ | PROT_WRITE : PROT_NONE;
  if (::mprotect(reinterpret_cast<void*>(address), allocation.bytes, access) != 0) std::abort();
}

// As long as it lives, kernels can touch the memory of their device at its address.
class Launch {
 public:
  Launch() {
    const std::lock_guard lock(mutex);
    if (++running_ == 1) protect_all();
  }
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;
  ~Launch() {
    const std::lock_guard lock(mutex);
    if (--running_ == 0) protect_all();
  }

 private:
  void protect_all() const {
    for (const auto& [address, allocation] : allocations) {
      if (allocation.device == device_) protect(address, allocation);
    }
  }

  const int device_ = current_device();
  int& running_ = launches_running[static_cast<std::size_t>(device_)];
};

FakeCudaOrders& orders() {
  static FakeCudaOrders object;
  return object;
}

void look_for_secret(const std::byte* memory, std::size_t bytes) {
  FakeCudaOrders& order = orders();
  if (order.secret == nullptr) return;
  const std::byte* const end = memory + bytes;
  if (std::search(memory, end, order.secret, order.secret + order.secret_bytes) != end) ++order.secrets_left;
}

// What a call returns before it does anything: 0 if it is to go on.
int refusal_in_any_context() { return orders().calls++ == orders().fail_call ? orders().fail_with : 0; }
int refusal() {
  if (const int error = refusal_in_any_context(); error != 0) return error;
  return context == nullptr ? kInvalidContext : 0;
}

void start(void* stream, bool may_wait, std::function<void()> operation) {
  Stream& in = *static_cast<Stream*>(stream);
  if (orders().copies_late && may_wait) {
    ++orders().late_copies;
    const std::lock_guard lock(in.mutex);
    in.waiting.push_back(std::move(operation));
    return;
  }
  in.run();
  operation();
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
  int count = 0;
  cuDeviceGetCount(&count);
  *device = ordinal;
  return ordinal >= 0 && ordinal < count ? 0 : kInvalidDevice;
}

int cuDevicePrimaryCtxRetain(void** retained, int device) {
  ++orders().contexts;
  *retained = &contexts[static_cast<std::size_t>(device)];
  return 0;
}

int cuCtxGetDevice(int* device) {
  if (context == nullptr) return kInvalidContext;
  *device = current_device();
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
  const Allocation& made = allocations[*address] = {current_device(), bytes, static_cast<std::byte*>(content)};
  protect(*address, made);
  ++orders().allocations;
  return 0;
}

int cuMemFree_v2(std::uint64_t address) {
  const std::lock_guard lock(mutex);
  const auto found = allocations.find(address);
  if (found == allocations.end()) return kInvalidValue;
  const auto [device, bytes, content] = found->second;
  if (context == nullptr || device != current_device()) return kInvalidContext;
  look_for_secret(content, bytes);
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

int cuPointerGetAttribute(void* value, int attribute, std::uint64_t address) {
  if (const int error = refusal_in_any_context(); error != 0) return error;
  constexpr int kDeviceOrdinal = 9;
  const std::lock_guard lock(mutex);
  const auto found = find(address);
  if (attribute != kDeviceOrdinal || found == allocations.end()) return kInvalidValue;
  *static_cast<int*>(value) = found->second.device;
  return 0;
}

int cuMemcpyDtoH_v2(void* to, std::uint64_t from, std::size_t bytes) {
  if (const int error = refusal(); error != 0) return error;
  const std::byte* const inside = tzmark_fake_device_bytes(from, bytes);
  if (inside == nullptr) return kInvalidValue;
  std::memcpy(to, inside, bytes);
  return 0;
}

// Nothing runs concurrently with the caller: a started operation is complete, or happens when it is waited for.
int cuStreamCreate(void** stream, unsigned) {
  if (const int error = refusal(); error != 0) return error;
  *stream = new Stream;
  const std::lock_guard lock(mutex);
  streams.insert(*stream);
  ++orders().streams;
  return 0;
}

int cuStreamDestroy_v2(void* stream) {
  if (!is_stream_here(stream)) return kInvalidHandle;
  static_cast<Stream*>(stream)->run();
  const std::lock_guard lock(mutex);
  streams.erase(stream);
  delete static_cast<Stream*>(stream);
  --orders().streams;
  return 0;
}

int cuStreamSynchronize(void* stream) {
  if (const int error = refusal(); error != 0) return error;
  // The default streams, which have no work here.
  if (const auto number = reinterpret_cast<std::uintptr_t>(stream); number == 1 || number == 2) return 0;
  if (!is_stream_here(stream)) return kInvalidHandle;
  ++orders().stream_waits;
  static_cast<Stream*>(stream)->run();
  return 0;
}

int cuEventCreate(void** event, unsigned flags) {
  constexpr unsigned kDisableTiming = 2;
  if (const int error = refusal(); error != 0) return error;
  *event = new Event{.is_timed = (flags & kDisableTiming) == 0};
  const std::lock_guard lock(mutex);
  events.insert(*event);
  ++orders().events;
  return 0;
}

int cuEventDestroy_v2(void* event) {
  if (!is_event_here(event)) return kInvalidHandle;
  const std::lock_guard lock(mutex);
  events.erase(event);
  delete static_cast<Event*>(event);
  --orders().events;
  return 0;
}

int cuEventRecord(void* event, void* stream) {
  if (const int error = refusal(); error != 0) return error;
  if (!is_event_here(event) || !is_stream_here(stream)) return kInvalidHandle;
  Event& mark = *static_cast<Event*>(event);
  mark.stream = static_cast<Stream*>(stream);
  mark.position = mark.stream->end();
  mark.time = std::chrono::steady_clock::now();
  return 0;
}

int cuEventSynchronize(void* event) {
  if (const int error = refusal(); error != 0) return error;
  if (!is_event_here(event)) return kInvalidHandle;
  const Event& mark = *static_cast<Event*>(event);
  // What an event recorded of a stream that is gone has happened.
  if (is_known(streams, mark.stream)) mark.stream->run_to(mark.position);
  return 0;
}

// The host's time between the two records: what was between them has happened by then.
int cuEventElapsedTime(float* time, void* from, void* to) {
  if (const int error = refusal(); error != 0) return error;
  if (!is_event_here(from) || !is_event_here(to)) return kInvalidHandle;
  const Event& first = *static_cast<Event*>(from);
  const Event& last = *static_cast<Event*>(to);
  if (!first.is_timed || !last.is_timed) return kInvalidHandle;
  *time = std::chrono::duration<float, std::milli>(last.time - first.time).count();
  return 0;
}

int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t bytes, void* stream) {
  if (const int error = refusal(); error != 0) return error;
  std::byte* const inside = tzmark_fake_device_bytes(to, bytes);
  if (inside == nullptr || !is_stream_here(stream)) return kInvalidValue;
  // The driver itself copies memory that is not pinned, before it returns.
  start(stream, is_pinned(from, bytes), [=] { std::memcpy(inside, from, bytes); });
  return 0;
}

int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t bytes, void* stream) {
  if (const int error = refusal(); error != 0) return error;
  const std::byte* const inside = tzmark_fake_device_bytes(from, bytes);
  if (inside == nullptr || !is_stream_here(stream)) return kInvalidValue;
  start(stream, is_pinned(to, bytes), [=] { std::memcpy(to, inside, bytes); });
  return 0;
}

int cuMemsetD8Async(std::uint64_t to, unsigned char value, std::size_t bytes, void* stream) {
  if (const int error = refusal(); error != 0) return error;
  if (!is_stream_here(stream)) return kInvalidHandle;
  static_cast<Stream*>(stream)->run();
  std::byte* const inside = tzmark_fake_device_bytes(to, bytes);
  if (inside == nullptr) return kInvalidValue;
  std::memset(inside, value, bytes);
  return 0;
}

// Every other device, beginning with the second, is of a kind that multiplies no matrices of bits.
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int kMultiprocessorCount = 16, kCapability = 75;
  if (attribute == kMultiprocessorCount) {
    *value = 2;
  } else if (attribute == kCapability) {
    *value = device % 2 == 0 ? 9 : 10;
  } else {
    return kInvalidValue;
  }
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
  if (context == nullptr) return kInvalidContext;
  *module = &modules[static_cast<std::size_t>(current_device())];
  return 0;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  const char* const lost = std::getenv("TZMARK_FAKE_LOSES");
  const FakeKernel* const kernel = tzmark_fake_kernel(name);
  if (kernel == nullptr || (lost != nullptr && std::strcmp(lost, name) == 0)) return kNotFound;
  // As long as the module, which is never unloaded.
  *function = new Function{static_cast<int>(static_cast<char*>(module) - modules.data()), kernel};
  return 0;
}

int cuFuncSetAttribute(void* function, int attribute, int value) {
  constexpr int kSharedBytesMax = 8, kBytesMax = 227 << 10;
  if (const int error = refusal(); error != 0) return error;
  if (attribute != kSharedBytesMax || value < 0 || value > kBytesMax) return kInvalidValue;
  static_cast<Function*>(function)->shared_bytes_max = static_cast<unsigned>(value);
  return 0;
}

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void**) {
  if (const int error = refusal(); error != 0) return error;
  const auto& [device, launched, shared_bytes_max] = *static_cast<const Function*>(function);
  const FakeKernel& kernel = *launched;
  if (device != current_device() || !is_stream_here(stream)) return kInvalidHandle;
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x != kernel.threads || block_y != 1 || block_z != 1 ||
      shared_bytes != kernel.shared_bytes || shared_bytes > shared_bytes_max) {
    return kInvalidValue;
  }
  static_cast<Stream*>(stream)->run();
  ++orders().launches;
  orders().last_kernel = kernel.name;
  if (orders().forgets_launches) return 0;
  const Launch launch;
  kernel.run(grid_x, parameters[0]);
  return 0;
}

int cuMemHostRegister_v2(void* memory, std::size_t bytes, unsigned) {
  if (const int error = refusal(); error != 0) return error;
  const std::lock_guard lock(mutex);
  return bytes != 0 && pinned.emplace(memory, bytes).second ? 0 : kInvalidValue;
}

int cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(memory);
  if (found == pinned.end()) return kInvalidValue;
  look_for_secret(static_cast<const std::byte*>(memory), found->second);
  pinned.erase(found);
  return 0;
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
