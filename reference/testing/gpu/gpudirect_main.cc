// For tests: chooses the stand-ins of libcuda and libcufile, and then runs the tests of the path gpudirect. Those tests
// that hold for every path run for this one only, since its own test program runs them for the others.
#include <gtest/gtest.h>

#include "testing/gpu/fake_libraries.h"

int main(int argc, char** argv) {
  tzmark::test::fakes();
  ::testing::GTEST_FLAG(filter) = "GpuDirect*:CuFile*:*/gpudirect";
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
