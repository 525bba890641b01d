// For tests: the kernels that the stand-in of libcuda can launch.
#include <algorithm>
#include <array>
#include <string_view>

#include "gpu/crc32.h"
#include "gpu/secretbox_kernel.h"
#include "testing/gpu/fake.h"
#include "testing/gpu/host_block.h"

namespace {

using tzmark::test::FakeKernel;
using namespace tzmark::gpu;

constexpr std::array kKernels = {
    FakeKernel{"tzmark_crc32", kCrc32Threads,
               [](unsigned blocks, const void* arguments) {
                 run_on_host<Crc32Shared>(blocks, kCrc32Threads, [&](const HostBlock& block, Crc32Shared& shared) {
                   crc32_kernel(block, shared, *static_cast<const Crc32Arguments*>(arguments));
                 });
               }},
    FakeKernel{"tzmark_secretbox", kSecretboxThreads,
               [](unsigned blocks, const void* arguments) {
                 run_on_host<SecretboxShared>(
                     blocks, kSecretboxThreads, [&](const HostBlock& block, SecretboxShared& shared) {
                       secretbox_kernel(block, shared, *static_cast<const SecretboxArguments*>(arguments));
                     });
               }},
};

}  // namespace

const FakeKernel* tzmark_fake_kernel(const char* name) {
  const auto* const found = std::ranges::find(kKernels, std::string_view(name), &FakeKernel::name);
  return found == kKernels.end() ? nullptr : found;
}
