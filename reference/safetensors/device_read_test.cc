// Tensors of a safetensors file go into GPU memory of the caller, over every path.
#include <gtest/gtest.h>

#include "testing/files/path_test.h"
#include "testing/gpu/device_test.h"
#include "testing/gpu/fake_libraries.h"
#include "tzmark/safetensors.h"

namespace tzmark {
namespace {

class SafetensorsToDevice : public ::testing::TestWithParam<std::string> {
 protected:
  test::TestDirectory directory_;
};

// The stand-in of libcuda has two GPUs.
class SafetensorsToTwoGpus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::on_gpu()) GTEST_SKIP() << "this may be the only GPU";
  }
  test::TestDirectory directory_;
};

TEST_P(SafetensorsToDevice, SeveralTensorsGoIntoMemoryOfTheCaller) {
  constexpr std::size_t kGapBytes = 4;
  constexpr std::byte kOthers{0x55};
  test::Content content;
  for (const std::uint64_t bytes : {40, 24, 600'000, 0, 100, 3, 70'001, 300'003}) {
    content.add({"t" + std::to_string(content.data.size())}, "uint8", {bytes});
  }
  const std::string name = directory_ / "model.safetensors";
  write_safetensors(name, content.table, content.source());
  SafetensorsReadOptions options;
  options.io_path = GetParam();
  options.piece_bytes = 65'536;
  const SafetensorsReader reader = SafetensorsReader::open(name, options);
  // Out of order, one twice, and one that is left out.
  const std::vector<std::size_t> wanted = {7, 1, 0, 2, 3, 2, 4, 6};
  std::size_t device_bytes = 0;
  for (const std::size_t i : wanted) device_bytes += kGapBytes + content.data[i].size();
  const DeviceMemory device(device_bytes);
  copy_from_host(std::vector(device_bytes, kOthers), device.buffer());
  std::vector<ReadTarget> targets;
  std::size_t at = 0;
  for (const std::size_t i : wanted) {
    const std::string tensor = "t" + std::to_string(i);
    targets.push_back({*reader.find(tensor), device.buffer().sub(at + kGapBytes, content.data[i].size())});
    at += kGapBytes + content.data[i].size();
  }
  reader.read_into_device(targets, test::in_small_copies());
  for (std::size_t n = 0; n < wanted.size(); ++n) {
    EXPECT_EQ(test::on_host(targets[n].out), content.data[wanted[n]]) << wanted[n];
    const ConstBuffer gap(targets[n].out.data - kGapBytes, kGapBytes, MemoryKind::kDevice);
    EXPECT_EQ(test::on_host(gap), std::vector(kGapBytes, kOthers)) << wanted[n];
  }
  reader.read_into_device(std::span<const ReadTarget>(), {});

  // Nothing is written if one does not fit, or is in host memory.
  copy_from_host(std::vector(device_bytes, kOthers), device.buffer());
  targets.back().out = targets.back().out.sub(0, 2);
  EXPECT_EQ(test::error_of([&] { reader.read_into_device(targets, {}); }), ErrorCode::kUsage);
  std::vector<std::byte> host(content.data[6].size());
  targets.back().out = std::span(host);
  EXPECT_EQ(test::error_of([&] { reader.read_into_device(targets, {}); }), ErrorCode::kUsage);
  EXPECT_EQ(test::on_host(device.buffer()), std::vector(device_bytes, kOthers));
}

// More than a sort by insertion takes: another type of the codec once had the name of the ranges that are sorted.
TEST_P(SafetensorsToDevice, ManyTensorsInAnyOrder) {
  constexpr std::size_t kCount = 100;
  test::Content content;
  for (std::size_t i = 0; i < kCount; ++i) content.add({"t" + std::to_string(i)}, "uint8", {100 + i});
  const std::string name = directory_ / "model.safetensors";
  write_safetensors(name, content.table, content.source());
  SafetensorsReadOptions options;
  options.io_path = GetParam();
  const SafetensorsReader reader = SafetensorsReader::open(name, options);
  const DeviceMemory device(2 * kCount * kCount);
  std::vector<ReadTarget> targets;
  std::vector<std::size_t> order;
  for (std::size_t n = 0; n < kCount; ++n) {
    order.push_back(n * 37 % kCount);
    const MutableBuffer out = device.buffer().sub(n * 2 * kCount, content.data[order.back()].size());
    targets.push_back({*reader.find("t" + std::to_string(order.back())), out});
  }
  reader.read_into_device(targets, {});
  for (std::size_t n = 0; n < kCount; ++n) EXPECT_EQ(test::on_host(targets[n].out), content.data[order[n]]) << n;
}

TEST_F(SafetensorsToTwoGpus, EachTensorGoesToItsOwn) {
  test::Content content;
  for (const std::uint64_t bytes : {100'000, 300, 70'001, 0, 200}) {
    content.add({"t" + std::to_string(content.data.size())}, "uint8", {bytes});
  }
  const std::string name = directory_ / "model.safetensors";
  write_safetensors(name, content.table, content.source());
  const SafetensorsReader reader = SafetensorsReader::open(name);
  std::vector<DeviceMemory> memory;
  std::vector<ReadTarget> targets;
  for (std::size_t i = 0; i < content.data.size(); ++i) {
    memory.emplace_back(content.data[i].size(), static_cast<int>(i % 2));
    targets.push_back({*reader.find("t" + std::to_string(i)), memory.back().buffer()});
  }
  reader.read_into_device(targets, {});
  for (std::size_t i = 0; i < content.data.size(); ++i) EXPECT_EQ(test::on_host(targets[i].out), content.data[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(EveryPath, SafetensorsToDevice, ::testing::ValuesIn(test::disk_paths()), test::test_name);

}  // namespace
}  // namespace tzmark
