// For tests of kernels: runs them on the host, by the stand-in of libcuda; or on a GPU, where TZMARK_TEST_ON_GPU is
// set:
//
//   TZMARK_TEST_ON_GPU=1 build/tests/gpu_test
//   TZMARK_TEST_ON_GPU=1 compute-sanitizer --tool memcheck build/tests/gpu_test
//   TZMARK_TEST_ON_GPU=1 compute-sanitizer --tool racecheck build/tests/gpu_test --gtest_filter=-*Large*
//
// Then a machine without a GPU is a failure, and the tests of the stand-in alone are left out.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "testing/gpu/gpu_test.h"
#include "tzmark/device_compute.h"

int main(int argc, char** argv) {
  if (tzmark::test::on_gpu()) {
    ::testing::GTEST_FLAG(filter) = "-Fake*";
    if (const std::string& reason = tzmark::why_no_device_compute(); !reason.empty()) {
      std::fprintf(stderr, "TZMARK_TEST_ON_GPU is set, and %s\n", reason.c_str());
      return 1;
    }
  } else {
    ::setenv("TZMARK_CUDA_LIBRARY", TZMARK_FAKE_CUDA, 1);
    ::setenv("TZMARK_FAKE_DEVICES", "32", 0);
  }
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
