// Tensors in GPU memory in a build that has no kernels: the host computes, or the call fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/gpu/device_test.h"
#include "testing/gpu/fake_libraries.h"
#include "tzmark/device_compute.h"

namespace tzmark {
namespace {

class DeviceWithoutKernelsTest : public test::GpuDirectTest {
 protected:
  std::string write(std::uint64_t chunk_bytes) {
    const std::string name = new_name();
    test::write_to(name, content_, chunk_bytes);
    return name;
  }

  const test::Content content_ = test::several_sizes();
};

TEST_F(DeviceWithoutKernelsTest, TheHostComputes) {
  ASSERT_THAT(why_no_device_compute(), ::testing::HasSubstr("without CUDA kernels"));
  for (const std::uint64_t chunk_bytes : {0, 65'536}) {
    const Reader reader = test::open_by("pwrite", write(chunk_bytes), chunk_bytes != 0, 65'536);
    for (const DeviceCompute compute : {DeviceCompute::kAuto, DeviceCompute::kHost}) {
      test::expect_same(content_, reader.load_into_device(test::in_small_copies({.compute = compute})));
    }
  }
}

TEST_F(DeviceWithoutKernelsTest, WhatWentPastTheHostIsCopiedBackToBeHashed) {
  const std::string name = write(0);
  const std::uint64_t place = test::open_by("pwrite", name, false, 65'536).tensors()[1].data_offset + 345'678;
  const auto load = [&](Verification verify) {
    return test::open_by("gpudirect", name, false, 65'536).load_into_device(test::in_small_copies({.verify = verify}));
  };
  for (const Verification verify : {Verification::kNone, Verification::kCrc32, Verification::kAll}) {
    test::expect_same(content_, load(verify));
  }
  const auto file = open_file(name, OpenMode::kModify);
  std::vector<std::byte> byte = test::read(*file, place, 1);
  byte[0] ^= std::byte{0x10};
  file->write_at(place, std::span(byte));
  EXPECT_EQ(test::error_of([&] { load(Verification::kCrc32); }), ErrorCode::kHashCrc32);
}

TEST_F(DeviceWithoutKernelsTest, WhatOnlyTheGpuCouldDoIsAnError) {
  const Reader plain = test::open_by("pwrite", write(0), false, 65'536);
  EXPECT_EQ(test::error_of([&] { plain.load_into_device({.compute = DeviceCompute::kDevice}); }),
            ErrorCode::kUnavailable);
  const Reader sealed = test::open_by("gpudirect", write(65'536), true, 65'536);
  EXPECT_EQ(test::error_of([&] { sealed.load_into_device({}); }), ErrorCode::kUnavailable);
}

TEST_F(DeviceWithoutKernelsTest, AWriterHashesOnTheHost) {
  const std::string name = write(0);
  const DeviceTensors loaded = test::open_by("gpudirect", name, false, 65'536).load_into_device({});
  WriteOptions writing;
  writing.io_path = "gpudirect";
  writing.piece_bytes = 65'536;
  const std::string written = new_name();
  write_file(written, content_.table, DeviceSource(test::views_of(loaded)), writing);
  const Reader reader = test::open_by("pwrite", written, false, 65'536);
  reader.verify();
  test::expect_same(content_, reader.load_into_device({}));
}

}  // namespace
}  // namespace tzmark
