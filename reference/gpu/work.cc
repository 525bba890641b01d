// Loading and launching kernels.
#include "gpu/work.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <optional>

#include "gpu/crc32_matrix.h"
#include "gpu/crc32_tables.h"
#include "gpu/image.h"
#include "gpu/read_kernel.h"
#include "gpu/secretbox_kernel.h"
#include "tzmark/error.h"

namespace tzmark::gpu {
namespace {

const CudaCalls& calls() { return Cuda::instance().calls(); }

int usable(int device) {
  if (const std::string& reason = Kernels::of(device).why_unavailable(); !reason.empty()) {
    throw Error(ErrorCode::kUnavailable, reason);
  }
  return device;
}

// Null if there is no room for it: then tables do, for the life of the process.
std::unique_ptr<DeviceMemory> load_matrix(int device) {
  const auto matrix = std::make_unique<Crc32Matrix>();
  make_crc32_matrix(*matrix);
  try {
    auto memory = std::make_unique<DeviceMemory>(sizeof *matrix, device);
    memory->copy_from_host(0, std::as_bytes(std::span(matrix.get(), 1)));
    return memory;
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

int device_of_all(std::span<const ConstBuffer> memory) {
  const Cuda& cuda = Cuda::instance();
  if (!cuda.why_unavailable().empty()) throw Error(ErrorCode::kUnavailable, cuda.why_unavailable());
  std::optional<int> device;
  // Ranges mostly lie in one allocation, which is looked up once.
  Cuda::Range known;
  for (const ConstBuffer& buffer : memory) {
    const std::uint64_t address = device_address(buffer.data);
    if (buffer.size == 0 || (address >= known.base && address - known.base < known.bytes)) continue;
    const int other = device_of(buffer);
    if (device.value_or(other) != other) {
      throw Error(ErrorCode::kUsage, fmt::format("memory of GPU {} and of GPU {} in one call", *device, other));
    }
    device = other;
    known = cuda.allocation_of(address);
  }
  return device.value_or(0);
}

const Kernels& Kernels::of(int device) {
  // Never destroyed, as the library below is not.
  static std::mutex& mutex = *new std::mutex;
  static auto& kernels = *new std::map<int, const Kernels*>;
  const std::lock_guard lock(mutex);
  const Kernels*& of_device = kernels[device];
  if (of_device == nullptr) of_device = new Kernels(device);
  return *of_device;
}

std::string Kernels::load(int device) {
  if (image().empty()) return "built without CUDA kernels";
  const Cuda& cuda = Cuda::instance();
  if (!cuda.why_unavailable().empty()) return cuda.why_unavailable();
  try {
    // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    constexpr int kMultiprocessorCount = 16, kCapability = 75, kSharedBytesMax = 8;
    const CudaContext context(device);
    processors_ = static_cast<unsigned>(std::max(1, cuda.attribute(kMultiprocessorCount, device)));
    // The compiler emulates the instruction that multiplies matrices of bits for later ones.
    const int capability = cuda.attribute(kCapability, device);
    void* module = nullptr;
    if (const int error = calls().load_module(&module, image().data()); error != 0) {
      return "the GPU does not support the CUDA kernels of this build: cuModuleLoadData: " + cuda.error_text(error);
    }
    struct Entry {
      const char* name;
      Kernel* kernel;
      unsigned threads, shared_bytes = 0;
    };
    for (const auto& [name, kernel, threads, shared_bytes] :
         {Entry{"tzmark_crc32_tables", &crc32_tables_, kCrc32TablesThreads},
          Entry{"tzmark_crc32_matrix", &crc32_matrix_, kCrc32MatrixThreads, sizeof(Crc32Matrix)},
          Entry{"tzmark_secretbox_keys", &secretbox_keys_, kSecretboxThreads},
          Entry{"tzmark_secretbox_macs", &secretbox_macs_, kSecretboxThreads},
          Entry{"tzmark_secretbox_verdicts", &secretbox_verdicts_, kSecretboxThreads},
          Entry{"tzmark_secretbox_open", &secretbox_open_, kSecretboxThreads},
          Entry{"tzmark_read", &read_, kReadThreads}}) {
      *kernel = {nullptr, threads, shared_bytes};
      if (const int error = calls().function(&kernel->function, module, name); error != 0) {
        return fmt::format("cuModuleGetFunction of {}: {}", name, cuda.error_text(error));
      }
      if (shared_bytes == 0) continue;
      check_cuda(calls().set_function_attribute(kernel->function, kSharedBytesMax, static_cast<int>(shared_bytes)),
                 "cuFuncSetAttribute");
    }
    if (capability == 8 || capability == 9) matrix_ = load_matrix(device);
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

Workspace::Workspace(int device, std::size_t bytes, std::size_t exchanged_bytes)
    : scratch(bytes, device), host(PinnedPool::instance().take(exchanged_bytes, device, /*holds_secrets=*/false)) {}

Workspaces& Workspaces::instance() {
  // The CUDA driver may be gone before destructors of static objects run.
  static Workspaces* const workspaces = new Workspaces;
  return *workspaces;
}

std::unique_ptr<Workspace> Workspaces::take(int device, std::size_t bytes, std::size_t exchanged_bytes) {
  // Of similar calls, the next one then gets by with the memory of the last one.
  constexpr std::size_t kBytesMin = 256 << 10;
  PinnedPool::instance().require_own_process();
  {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(idle_, [&](const auto& idle) {
      return idle->scratch.device() == device && idle->scratch.buffer().size >= bytes &&
             idle->host.bytes().size() >= exchanged_bytes;
    });
    if (found != idle_.end()) {
      auto workspace = std::move(*found);
      idle_.erase(found);
      return workspace;
    }
  }
  return std::make_unique<Workspace>(device, std::max(std::bit_ceil(bytes), kBytesMin),
                                     std::max(std::bit_ceil(exchanged_bytes), kBytesMin));
}

void Workspaces::give_back(std::unique_ptr<Workspace> workspace) {
  // One per thread of a load is enough.
  constexpr std::size_t kIdleMax = 16, kIdleBytesMax = 4 << 20;
  if (workspace->scratch.buffer().size > kIdleBytesMax) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kIdleMax) idle_.push_back(std::move(workspace));
}

void Workspaces::clear() {
  std::vector<std::unique_ptr<Workspace>> unused;
  {
    const std::lock_guard lock(mutex_);
    unused.swap(idle_);
  }
  for (auto& workspace : unused) {
    const CudaContext context(workspace->scratch.device());
    workspace.reset();
  }
}

Work::Work(int device, std::size_t scratch_bytes, std::size_t exchanged_bytes, std::chrono::nanoseconds* kernel_time)
    : context_(usable(device)),
      bytes_(scratch_bytes),
      exchanged_bytes_(exchanged_bytes),
      space_(Workspaces::instance().take(device, scratch_bytes, exchanged_bytes)),
      kernel_time_(kernel_time) {
  if (kernel_time_ != nullptr) *kernel_time_ = {};
}

Work::~Work() {
  // A destructor cannot report an error.
  try {
    if (!finished_) finish();
  } catch (const Error&) {
    static_cast<void>(calls().wait_for_stream(space_->stream.get()));
  }
  // A key was copied from there.
  ::explicit_bzero(host(0, exchanged_bytes_).data(), exchanged_bytes_);
  // What has failed may still be in flight, for which freeing waits.
  if (finished_) Workspaces::instance().give_back(std::move(space_));
}

std::uint64_t Work::address(std::size_t offset) const {
  return reinterpret_cast<std::uintptr_t>(space_->scratch.buffer().data) + offset;
}

std::span<std::byte> Work::host(std::size_t offset, std::size_t bytes) const {
  TZMARK_REQUIRES(offset <= exchanged_bytes_ && bytes <= exchanged_bytes_ - offset);
  return space_->host.bytes().subspan(offset, bytes);
}

void Work::upload(std::size_t offset, std::span<const std::byte> from) {
  const std::span<std::byte> pinned = host(offset, from.size());
  std::ranges::copy(from, pinned.begin());
  check_cuda(calls().start_copy_to_device(address(offset), pinned.data(), pinned.size(), space_->stream.get()),
             "cuMemcpyHtoDAsync");
}

void Work::clear(std::size_t offset, std::size_t bytes) {
  check_cuda(calls().start_fill(address(offset), 0, bytes, space_->stream.get()), "cuMemsetD8Async");
}

void Work::launch_with(const Kernel& kernel, unsigned blocks, void* arguments) {
  if (kernel_time_ != nullptr && !before_) before_.emplace(CudaEvent::Use::kTiming).record(space_->stream);
  check_cuda(calls().launch(kernel.function, blocks, 1, 1, kernel.threads, 1, 1, kernel.shared_bytes,
                            space_->stream.get(), &arguments, nullptr),
             "cuLaunchKernel");
  if (before_) (after_ ? *after_ : after_.emplace(CudaEvent::Use::kTiming)).record(space_->stream);
}

void Work::download(std::size_t offset, std::size_t bytes) {
  check_cuda(calls().start_copy_to_host(host(offset, bytes).data(), address(offset), bytes, space_->stream.get()),
             "cuMemcpyDtoHAsync");
}

void Work::finish() {
  clear(0, bytes_);
  space_->stream.wait();
  finished_ = true;
  if (after_) *kernel_time_ = before_->time_until(*after_);
}

std::span<const std::byte> Work::downloaded(std::size_t offset, std::size_t bytes) const {
  TZMARK_REQUIRES(finished_);
  return host(offset, bytes);
}

}  // namespace tzmark::gpu
