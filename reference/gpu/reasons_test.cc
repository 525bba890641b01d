// Tests of why kernels cannot be used: each in a process of its own, since libraries are loaded once.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "testing/caught.h"
#include "testing/gpu/gpu_test.h"
#include "testing/gpu/probe_program.h"

namespace tzmark::test {
namespace {

// What a new process says, with more in its environment than this one.
std::string reason_with(std::initializer_list<std::string> environment, const std::string& probe = TZMARK_GPU_PROBE) {
  return line_of(probe, environment);
}

TEST(FakeReasons, NoneWithAGpuThatTakesTheKernels) { EXPECT_EQ(reason_with({}), ""); }

// Of a call that does not ask first.
TEST(FakeReasons, ACallWithoutKernelsIsAnError) {
  EXPECT_THAT(reason_with({"TZMARK_PROBE_CALLS=1"}, TZMARK_GPU_PROBE_WITHOUT_KERNELS),
              ::testing::StartsWith("error TZE-AVL-001: built without CUDA kernels"));
}

TEST(FakeReasons, ABuildWithoutKernels) {
  EXPECT_EQ(reason_with({}, TZMARK_GPU_PROBE_WITHOUT_KERNELS), "built without CUDA kernels");
}

TEST(FakeReasons, NoGpu) {
  EXPECT_EQ(reason_with({"TZMARK_FAKE_DEVICES=0"}), "there is no GPU that CUDA can use");
  EXPECT_THAT(reason_with({"TZMARK_CUDA_LIBRARY=/none/libcuda.so"}),
              ::testing::StartsWith("there is no CUDA driver: "));
}

TEST(FakeReasons, AGpuThatTheKernelsAreNotFor) {
  EXPECT_EQ(reason_with({"TZMARK_FAKE_MODULE_ERROR=209"}),
            "the GPU does not support the CUDA kernels of this build: cuModuleLoadData: CUDA_ERROR_NO_BINARY_FOR_GPU "
            "(209)");
}

TEST(FakeReasons, AKernelThatIsNotThere) {
  for (const std::string name :
       {"tzmark_crc32_tables", "tzmark_crc32_matrix", "tzmark_secretbox_keys", "tzmark_secretbox_open"}) {
    EXPECT_EQ(reason_with({"TZMARK_FAKE_LOSES=" + name}),
              fmt::format("cuModuleGetFunction of {}: CUDA_ERROR_NOT_FOUND (500)", name));
  }
}

}  // namespace
}  // namespace tzmark::test
