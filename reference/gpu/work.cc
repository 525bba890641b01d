// Loading and launching kernels.
#include "gpu/work.h"

#include <fmt/format.h>

#include "gpu/image.h"
#include "tzmark/error.h"

namespace tzmark::gpu {
namespace {

const CudaCalls& calls() { return Cuda::instance().calls(); }

std::size_t usable(std::size_t scratch_bytes) {
  if (const std::string& reason = Kernels::instance().why_unavailable(); !reason.empty()) {
    throw Error(ErrorCode::kUnavailable, reason);
  }
  return scratch_bytes;
}

}  // namespace

const Kernels& Kernels::instance() {
  // Never destroyed, as the library below is not.
  static const Kernels* const kernels = new Kernels;
  return *kernels;
}

Kernels::Kernels() { why_unavailable_ = load(); }

std::string Kernels::load() {
  if (image().empty()) return "built without CUDA kernels";
  const Cuda& cuda = Cuda::instance();
  if (!cuda.why_unavailable().empty()) return cuda.why_unavailable();
  try {
    constexpr int kMultiprocessorCount = 16;  // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
    cuda.make_context_current();
    processors_ = static_cast<unsigned>(cuda.attribute(kMultiprocessorCount));
  } catch (const Error& error) {
    return error.message();
  }
  void* module = nullptr;
  if (const int error = calls().load_module(&module, image().data()); error != 0) {
    return "the GPU does not support the CUDA kernels of this build: cuModuleLoadData: " + cuda.error_text(error);
  }
  for (const auto& [name, function] : {std::pair{"tzmark_crc32", &crc32_}, {"tzmark_secretbox", &secretbox_}}) {
    if (const int error = calls().function(function, module, name); error != 0) {
      return fmt::format("cuModuleGetFunction of {}: {}", name, cuda.error_text(error));
    }
  }
  return {};
}

Work::Work(std::size_t scratch_bytes) : scratch_(usable(scratch_bytes)) {}

Work::~Work() {
  if (finished_) return;
  // A destructor cannot report an error.
  try {
    finish();
  } catch (const Error&) {
    static_cast<void>(calls().wait_for_stream(stream_.get()));
  }
}

std::uint64_t Work::address(std::size_t offset) const {
  return reinterpret_cast<std::uintptr_t>(scratch_.buffer().data) + offset;
}

void Work::upload(std::size_t offset, std::span<const std::byte> from) {
  check_cuda(calls().start_copy_to_device(address(offset), from.data(), from.size(), stream_.get()),
             "cuMemcpyHtoDAsync");
}

void Work::clear(std::size_t offset, std::size_t bytes) {
  check_cuda(calls().start_fill(address(offset), 0, bytes, stream_.get()), "cuMemsetD8Async");
}

void Work::launch_with(void* kernel, unsigned blocks, unsigned threads, void* arguments) {
  check_cuda(calls().launch(kernel, blocks, 1, 1, threads, 1, 1, 0, stream_.get(), &arguments, nullptr),
             "cuLaunchKernel");
}

void Work::download(std::span<std::byte> to, std::size_t offset) {
  check_cuda(calls().start_copy_to_host(to.data(), address(offset), to.size(), stream_.get()), "cuMemcpyDtoHAsync");
}

void Work::finish() {
  clear(0, scratch_.buffer().size);
  stream_.wait();
  finished_ = true;
}

}  // namespace tzmark::gpu
