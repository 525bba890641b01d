// For tests: chooses the stand-in of libcuda before anything asks for a GPU.
#include <gtest/gtest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  ::setenv("TZMARK_CUDA_LIBRARY", TZMARK_FAKE_CUDA, 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
