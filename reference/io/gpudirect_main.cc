// For tests: chooses the stand-ins of libcuda and libcufile, and then runs the tests of the path gpudirect. Those tests
// that hold for every path run for this one only, since its own test program runs them for the others.
#include <gtest/gtest.h>

#include "io/test_stand_in.h"

int main(int argc, char** argv) {
  tzmark::test::stand_ins();
  ::testing::GTEST_FLAG(filter) = "GpuDirect*:CuFile*:*/gpudirect";
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
