// For tests: the kernels that the stand-in of libcuda can launch.
#include <algorithm>
#include <array>
#include <string_view>

#include "gpu/crc32_matrix.h"
#include "gpu/crc32_tables.h"
#include "gpu/read_kernel.h"
#include "gpu/secretbox_kernel.h"
#include "testing/gpu/fake.h"
#include "testing/gpu/host_block.h"

namespace {

using tzmark::test::FakeKernel;
using namespace tzmark::gpu;

template <auto kKernel, typename Shared, typename Arguments, unsigned kThreads>
void run(unsigned blocks, const void* arguments) {
  run_on_host<Shared>(blocks, kThreads, [&](const HostBlock& block, Shared& shared) {
    kKernel(block, shared, *static_cast<const Arguments*>(arguments));
  });
}

struct NothingShared {};

// Of a kernel that has no shared memory.
template <auto kKernel, typename Arguments = SecretboxArguments, unsigned kThreads = kSecretboxThreads>
void run_alone(unsigned blocks, const void* arguments) {
  run_on_host<NothingShared>(blocks, kThreads, [&](const HostBlock& block, NothingShared&) {
    kKernel(block, *static_cast<const Arguments*>(arguments));
  });
}

constexpr std::array kKernels = {
    FakeKernel{"tzmark_crc32_tables", kCrc32TablesThreads, 0,
               run<crc32_tables_kernel<HostBlock>, Crc32TablesShared, Crc32TablesArguments, kCrc32TablesThreads>},
    FakeKernel{"tzmark_crc32_matrix", kCrc32MatrixThreads, sizeof(Crc32MatrixShared),
               run<crc32_matrix_kernel<HostBlock>, Crc32MatrixShared, Crc32MatrixArguments, kCrc32MatrixThreads>},
    FakeKernel{"tzmark_secretbox_keys", kSecretboxThreads, 0, run_alone<secretbox_keys_kernel<HostBlock>>},
    FakeKernel{"tzmark_secretbox_macs", kSecretboxThreads, 0, run_alone<secretbox_macs_kernel<HostBlock>>},
    FakeKernel{"tzmark_secretbox_verdicts", kSecretboxThreads, 0, run_alone<secretbox_verdicts_kernel<HostBlock>>},
    FakeKernel{"tzmark_secretbox_open", kSecretboxThreads, 0,
               run<secretbox_open_kernel<HostBlock>, SecretboxShared, SecretboxArguments, kSecretboxThreads>},
    FakeKernel{"tzmark_read", kReadThreads, 0, run_alone<read_kernel<HostBlock>, ReadArguments, kReadThreads>},
};

}  // namespace

const FakeKernel* tzmark_fake_kernel(const char* name) {
  const auto* const found = std::ranges::find(kKernels, std::string_view(name), &FakeKernel::name);
  return found == kKernels.end() ? nullptr : found;
}
