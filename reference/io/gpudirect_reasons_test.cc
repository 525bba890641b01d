// Tests of why the path gpudirect is unavailable: each in a process of its own, since libraries are loaded once.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "testing/gpu/fake_libraries.h"
#include "testing/gpu/probe_program.h"

namespace tzmark::test {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// What a new process says, with more in its environment than this one.
std::string reason_with(std::initializer_list<std::string> environment) {
  return line_of(TZMARK_GPUDIRECT_PROBE, environment);
}

TEST(GpuDirectReasons, NoneWithBothLibraries) { EXPECT_EQ(reason_with({}), ""); }

TEST(GpuDirectReasons, NoCuda) {
  EXPECT_THAT(reason_with({"TZMARK_CUDA_LIBRARY=/none/libcuda.so"}),
              AllOf(StartsWith("there is no CUDA driver: "), HasSubstr("/none/libcuda.so")));
}

TEST(GpuDirectReasons, CudaWithoutItsFunctions) {
  EXPECT_THAT(reason_with({fmt::format("TZMARK_CUDA_LIBRARY={}", "libc.so.6")}),
              StartsWith("libc.so.6 lacks cuInit, cuDeviceGetCount, "));
}

TEST(GpuDirectReasons, CudaThatDoesNotStart) {
  EXPECT_EQ(reason_with({"TZMARK_FAKE_CUDA_ERROR=100"}), "cuInit: CUDA_ERROR_NO_DEVICE (100)");
  EXPECT_EQ(reason_with({"TZMARK_FAKE_CUDA_ERROR=999"}), "cuInit: CUDA error 999");
}

TEST(GpuDirectReasons, NoGpu) {
  EXPECT_EQ(reason_with({"TZMARK_FAKE_DEVICES=0"}), "there is no GPU that CUDA can use");
}

TEST(GpuDirectReasons, NoCuFile) {
  EXPECT_THAT(reason_with({"TZMARK_CUFILE_LIBRARY=/none/libcufile.so"}),
              AllOf(StartsWith("there is no libcufile: "), HasSubstr("/none/libcufile.so")));
}

TEST(GpuDirectReasons, CuFileWithoutItsFunctions) {
  EXPECT_THAT(reason_with({fmt::format("TZMARK_CUFILE_LIBRARY={}", TZMARK_FAKE_CUDA)}),
              AllOf(HasSubstr(" lacks cuFileDriverOpen, "), EndsWith("cuFileWrite")));
}

TEST(GpuDirectReasons, AnOldCuFileIsEnough) {
  EXPECT_EQ(reason_with({fmt::format("TZMARK_CUFILE_LIBRARY={}", TZMARK_FAKE_OLD_CUFILE)}), "");
}

TEST(GpuDirectReasons, ADriverThatDoesNotOpen) {
  EXPECT_EQ(reason_with({"TZMARK_FAKE_OPEN_ERROR=5033"}), "cuFileDriverOpen: CU_FILE_NVFS_SETUP_ERROR (5033)");
  EXPECT_EQ(reason_with({"TZMARK_FAKE_OPEN_ERROR=5011"}),
            "cuFileDriverOpen: CU_FILE_CUDA_DRIVER_ERROR (5011), CUDA_ERROR_OUT_OF_MEMORY (2)");
}

// As libcufile does without nvidia-fs: the driver opens, and no file can be used.
TEST(GpuDirectReasons, ADriverThatTakesNoFile) {
  EXPECT_EQ(reason_with({"TZMARK_FAKE_REGISTER_ERROR=5027"}),
            "cuFileHandleRegister: CU_FILE_HANDLE_NOT_REGISTERED (5027): libcufile takes no file here, as without the "
            "kernel module nvidia-fs");
  // Files of other file systems may do.
  EXPECT_EQ(reason_with({"TZMARK_FAKE_REGISTER_ERROR=5030"}), "");
}

TEST(GpuDirectReasons, ASystemThatCuFileCannotRead) {
  const SystemRoot root;
  const std::string environment = "TZMARK_SYSTEM_ROOT=" + root.name();
  EXPECT_EQ(reason_with({environment}), "");
  root.remove("/proc/modules");
  EXPECT_EQ(reason_with({environment}), root.name() + "/proc/modules cannot be read; libcufile needs it");
  root.remove("/run/udev");
  EXPECT_EQ(reason_with({environment}),
            root.name() + "/run/udev cannot be read; libcufile needs it (mount it into containers)");
}

TEST(GpuDirectReasons, ThisMachineSaysWhatItIsLike) {
  const std::string reason = reason_with({"TZMARK_CUDA_LIBRARY=", "TZMARK_CUFILE_LIBRARY=", "TZMARK_SYSTEM_ROOT="});
  void* const cuda = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (cuda == nullptr) {
    EXPECT_THAT(reason, StartsWith("there is no CUDA driver: libcuda.so.1"));
  } else {
    EXPECT_THAT(reason, ::testing::Not(HasSubstr("there is no CUDA driver")));
  }
}

}  // namespace
}  // namespace tzmark::test
