// For tests of GPU memory: chooses the stand-ins of libcuda and libcufile. Where TZMARK_TEST_ON_GPU is set, the tests
// run on a GPU, and those that need orders to a stand-in are left out:
//
//   TZMARK_TEST_ON_GPU=1 TZMARK_BUILD_DIR=build build/tests/device_test
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "testing/gpu/fake_libraries.h"

int main(int argc, char** argv) {
  if (std::getenv("TZMARK_TEST_ON_GPU") != nullptr) {
    ::testing::GTEST_FLAG(filter) = "-DeviceFault*";
    if (const std::string reason = tzmark::DeviceMemory::why_unavailable(); !reason.empty()) {
      std::fprintf(stderr, "TZMARK_TEST_ON_GPU is set, and %s\n", reason.c_str());
      return 1;
    }
  } else {
    tzmark::test::fakes();
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
