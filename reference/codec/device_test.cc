// Tensors on their way into GPU memory and back, by every path, over the stand-ins of libcuda and libcufile. The
// kernels that the stand-in runs are the ones of the GPU, compiled for the host.
#include "testing/gpu/device_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "testing/files/corpus.h"
#include "testing/gpu/fake_libraries.h"

namespace tzmark {
namespace {

using test::on_host;
using test::open_by;
using test::several_sizes;
using test::views_of;

struct Failure {
  std::string rule;
  std::optional<std::uint64_t> offset;
  bool operator==(const Failure&) const = default;
};

// What action fails with; nothing if it does not.
template <typename Action>
std::optional<Failure> failure_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    return Failure{std::string(error.rule()), error.offset()};
  }
  return std::nullopt;
}

class DeviceTest : public test::PathTest {
 protected:
  static bool is_gpudirect() { return GetParam() == "gpudirect"; }

  std::string write(const test::Content& content, std::uint64_t chunk_bytes, Layout layout = Layout::kV4) {
    const std::string name = new_name();
    test::write_to(name, content, chunk_bytes, layout);
    return name;
  }
  static Reader open(const std::string& name, bool encrypted, std::size_t piece_bytes) {
    return open_by(GetParam(), name, encrypted, piece_bytes);
  }
};

INSTANTIATE_TEST_SUITE_P(EveryPath, DeviceTest, ::testing::ValuesIn(test::disk_paths()), test::test_name);

TEST_P(DeviceTest, WhatIsLoadedIsWhatWasWritten) {
  const test::Content content = several_sizes();
  for (const Layout layout : {Layout::kV4, Layout::kV5Segments, Layout::kV5HeadersFirst}) {
    for (const std::uint64_t chunk_bytes : {0, 5'056, 65'536, 299'968}) {
      const std::string name = write(content, chunk_bytes, layout);
      for (const std::size_t piece_bytes : {65'536, 2'097'152}) {
        const Reader reader = open(name, chunk_bytes != 0, piece_bytes);
        for (const DeviceCompute compute : {DeviceCompute::kAuto, DeviceCompute::kHost, DeviceCompute::kDevice}) {
          if (compute == DeviceCompute::kHost && is_gpudirect()) continue;
          for (const Verification verify : {Verification::kNone, Verification::kCrc32, Verification::kAll}) {
            // Encrypted tensors have none.
            if (verify == Verification::kCrc32 && chunk_bytes != 0) continue;
            SCOPED_TRACE(fmt::format("{}, chunks of {}, pieces of {}, compute {}, verify {}", layout_name(layout),
                                     chunk_bytes, piece_bytes, static_cast<int>(compute), static_cast<int>(verify)));
            const DeviceReadOptions options{.verify = verify, .compute = compute};
            test::expect_same(content, reader.load_into_device(test::in_small_copies(options)));
            if (piece_bytes == 65'536) test::expect_same(content, reader.load_into_device(options));
          }
        }
      }
      std::filesystem::remove(name);
    }
  }
}

TEST_P(DeviceTest, OneTensorGoesIntoMemoryOfTheCaller) {
  const test::Content content = several_sizes();
  const Reader reader = open(write(content, 0), false, 65'536);
  for (std::size_t i = 0; i + 1 < content.data.size(); ++i) {
    const DeviceMemory memory(content.data[i].size() + 2);
    reader.read_into_device(i, memory.buffer().sub(1, content.data[i].size()), test::in_small_copies());
    EXPECT_EQ(on_host(memory.buffer().sub(1, content.data[i].size())), content.data[i]);
  }
  const std::size_t meta = content.data.size() - 1;
  DeviceMemory memory(28);
  memory.copy_from_host(0, std::vector(28, std::byte{1}));
  reader.read_into_device(meta, memory.buffer(), {.verify = Verification::kNone});
  EXPECT_EQ(on_host(memory.buffer()), std::vector(28, std::byte{}));

  const DeviceMemory small(5);
  EXPECT_EQ(test::error_of([&] { reader.read_into_device(1, small.buffer(), {}); }), ErrorCode::kUsage);
  std::vector<std::byte> host(600'000);
  EXPECT_EQ(test::error_of([&] { reader.read_into_device(1, std::span(host), {}); }), ErrorCode::kUsage);
}

TEST_P(DeviceTest, SeveralTensorsGoIntoMemoryOfTheCaller) {
  constexpr std::size_t kGapBytes = 4;
  constexpr std::byte kOthers{0x55};
  test::Content content;
  for (const std::uint64_t bytes : {40, 24, 8, 600'000, 0, 100, 3, 70'001, 12, 12, 300'003}) {
    content.add({"t", std::uint64_t{content.data.size()}}, "uint8", {bytes});
  }
  content.add({"meta"}, "float32", {7}, /*meta=*/true);
  const std::size_t meta = content.data.size() - 1;
  for (const std::uint64_t chunk_bytes : {0, 65'536}) {
    const std::string name = write(content, chunk_bytes, Layout::kV5Segments);
    const Reader reader = open(name, chunk_bytes != 0, 65'536);
    // Out of order, with one that is left out; 0 lies between 1 and 2, which follow it in the file.
    const std::vector<std::size_t> wanted = {10, 1, 0, 2, 3, 4, meta, 6, 7, 8, 9};
    std::vector<std::vector<std::byte>> host;
    std::vector<ReadTarget> on_the_host, on_device;
    std::size_t device_bytes = 0;
    for (const std::size_t i : wanted) {
      host.emplace_back(i == meta ? 28 : content.data[i].size(), std::byte{1});
      device_bytes += kGapBytes + host.back().size();
    }
    // In one allocation, whose gaps are not the reader's.
    const DeviceMemory device(device_bytes);
    copy_from_host(std::vector(device_bytes, kOthers), device.buffer());
    std::size_t at = 0;
    for (std::size_t n = 0; n < wanted.size(); ++n) {
      on_the_host.push_back({wanted[n], std::span(host[n])});
      on_device.push_back({wanted[n], device.buffer().sub(at + kGapBytes, host[n].size())});
      at += kGapBytes + host[n].size();
    }
    reader.read(on_the_host, chunk_bytes == 0 ? Verification::kCrc32 : Verification::kAll);
    reader.read_into_device(on_device, test::in_small_copies());
    for (std::size_t n = 0; n < wanted.size(); ++n) {
      const auto& expected = wanted[n] == meta ? std::vector<std::byte>(28) : content.data[wanted[n]];
      EXPECT_EQ(host[n], expected) << wanted[n];
      EXPECT_EQ(on_host(on_device[n].out), expected) << wanted[n];
      const ConstBuffer gap(on_device[n].out.data - kGapBytes, kGapBytes, MemoryKind::kDevice);
      EXPECT_EQ(on_host(gap), std::vector(kGapBytes, kOthers)) << wanted[n];
    }

    // Nothing is written if one does not fit; nothing is asked for, too.
    std::ranges::fill(host[2], std::byte{7});
    on_the_host.back().out = on_the_host.back().out.sub(0, 2);
    on_device.back().out = on_device.back().out.sub(0, 2);
    EXPECT_EQ(test::error_of([&] { reader.read(on_the_host); }), ErrorCode::kUsage);
    EXPECT_EQ(test::error_of([&] { reader.read_into_device(on_device, {}); }), ErrorCode::kUsage);
    EXPECT_EQ(test::error_of([&] { reader.read(on_device); }), ErrorCode::kUsage);
    EXPECT_EQ(host[2], std::vector(host[2].size(), std::byte{7}));
    reader.read(std::span<const ReadTarget>());
    reader.read_into_device(std::span<const ReadTarget>(), {});

    // Damage of one of them is found.
    const auto file = open_file(name, OpenMode::kModify);
    const std::uint64_t place = reader.tensors()[7].data_offset + 5;
    std::vector<std::byte> byte = test::read(*file, place, 1);
    byte[0] ^= std::byte{0x10};
    file->write_at(place, std::span(byte));
    on_the_host.pop_back();
    on_device.pop_back();
    const auto alone = failure_of([&] { reader.read(7, std::span(host[8])); });
    ASSERT_TRUE(alone);
    EXPECT_EQ(failure_of([&] { reader.read(on_the_host); }), alone);
    EXPECT_EQ(failure_of([&] { reader.read_into_device(on_device, test::in_small_copies()); }), alone);
  }
}

TEST_P(DeviceTest, TheHostComputesNothingOfWhatPassesItBy) {
  const Reader reader = open(write(several_sizes(), 0), false, 65'536);
  const auto error = test::error_of([&] { reader.load_into_device({.compute = DeviceCompute::kHost}); });
  EXPECT_EQ(error, is_gpudirect() ? std::optional(ErrorCode::kUsage) : std::nullopt);
}

TEST_P(DeviceTest, DamageIsFoundAsOnTheHost) {
  const test::Content content = several_sizes();
  for (const std::uint64_t chunk_bytes : {0, 5'056, 299'968}) {
    const std::string name = write(content, chunk_bytes);
    const TensorTable table = open(name, chunk_bytes != 0, 65'536).tensors();
    // In the middle of a large tensor, at its ends, and in a small one; two at a time, of which the first one counts,
    // also where the second is in a header, which is read before the data of the first is verified.
    const std::vector<std::vector<std::uint64_t>> places = {
        {table[1].data_offset + 345'678},
        {table[1].data_offset},
        {table[10].data_offset + 300'002},
        {table[4].data_offset + 17},
        {table[7].data_offset + 9, table[6].data_offset + 1},
        {table[1].data_offset + 345'678, table[10].data_offset - 1}};
    for (const auto& damaged : places) {
      const auto file = open_file(name, OpenMode::kModify);
      const auto damage = [&] {
        for (const std::uint64_t place : damaged) {
          std::vector<std::byte> byte = test::read(*file, place, 1);
          byte[0] ^= std::byte{0x10};
          file->write_at(place, std::span(byte));
        }
      };
      damage();
      const Reader reader = open(name, chunk_bytes != 0, 65'536);
      for (const Verification verify : {Verification::kCrc32, Verification::kAll}) {
        if (verify == Verification::kCrc32 && chunk_bytes != 0) continue;
        const auto expected = failure_of([&] { reader.load(verify); });
        ASSERT_TRUE(expected);
        for (const DeviceCompute compute : {DeviceCompute::kAuto, DeviceCompute::kHost, DeviceCompute::kDevice}) {
          if (compute == DeviceCompute::kHost && is_gpudirect()) continue;
          const auto found = failure_of(
              [&] { reader.load_into_device(test::in_small_copies({.verify = verify, .compute = compute})); });
          ASSERT_TRUE(found);
          EXPECT_EQ(found->rule, expected->rule);
          EXPECT_EQ(found->offset, expected->offset);
        }
      }
      damage();
    }
    std::filesystem::remove(name);
  }
}

TEST_P(DeviceTest, AWriterTakesTensorsFromTheGpu) {
  const test::Content content = several_sizes();
  const std::string first = write(content, 0);
  const DeviceTensors loaded = open(first, false, 65'536).load_into_device({});
  const DeviceSource source(views_of(loaded));
  for (const bool sha256 : {false, true}) {
    for (const std::uint64_t chunk_bytes : {0, 65'536}) {
      // An encrypted tensor has no other hash.
      if (chunk_bytes != 0 && !sha256) continue;
      WriteOptions writing;
      writing.layout = Layout::kV4;
      writing.sha256 = sha256;
      writing.piece_bytes = 65'536;
      if (chunk_bytes != 0) writing.encrypt = test::with_key(chunk_bytes);
      const std::string host_name = new_name();
      write_file(host_name, content.table, content.source(), writing);
      writing.io_path = GetParam();
      const std::string name = new_name();
      const std::int64_t launches = test::on_gpu() ? 0 : test::fake_orders().launches.load();
      write_file(name, content.table, source, writing);
      // Not one for each piece.
      if (!test::on_gpu()) {
        EXPECT_LE(test::fake_orders().launches - launches, static_cast<std::int64_t>(content.data.size()));
      }
      if (chunk_bytes == 0) {
        const auto size = std::filesystem::file_size(host_name);
        ASSERT_EQ(std::filesystem::file_size(name), size);
        EXPECT_EQ(test::read(*open_file(name, OpenMode::kRead), 0, size),
                  test::read(*open_file(host_name, OpenMode::kRead), 0, size));
      }
      const Reader written = open(name, chunk_bytes != 0, 65'536);
      written.verify();
      test::expect_same(content, written.load_into_device({.verify = Verification::kNone}));
    }
  }
}

// The memory of the host as one tensor after the other.
std::vector<ConstBuffer> views_of(const LoadedTensors& tensors) {
  std::vector<ConstBuffer> views;
  for (std::size_t i = 0; i < tensors.size(); ++i) views.emplace_back(tensors[i]);
  return views;
}

TEST_P(DeviceTest, WhatIsInUseIsChecked) {
  const test::Content content = several_sizes();
  for (const std::uint64_t chunk_bytes : {0, 65'536}) {
    const std::string name = write(content, chunk_bytes);
    std::uint64_t bytes = 0;
    for (const auto& tensor : content.data) bytes += tensor.size();
    std::atomic<std::uint64_t> checked_bytes = 0;
    ReadOptions options = chunk_bytes != 0 ? test::key_options() : ReadOptions();
    options.piece_bytes = 65'536;
    options.io_path = GetParam();
    options.progress = [&](std::uint64_t n) { checked_bytes += n; };
    const Reader reader = Reader::open(name, std::move(options));
    const DeviceTensors on_device = reader.load_into_device({.verify = Verification::kNone});
    const LoadedTensors on_the_host = reader.load(Verification::kNone);
    for (const std::vector<ConstBuffer>& views : {views_of(on_device), views_of(on_the_host)}) {
      checked_bytes = 0;
      reader.check_loaded(views);
      EXPECT_EQ(checked_bytes, bytes);
      if (chunk_bytes == 0) reader.check_loaded(views, Verification::kCrc32);
      reader.check_loaded(views, Verification::kNone);
    }

    // The memory counts, not the file. Of two damaged tensors, the first in the file is reported.
    const std::uint64_t first_data = reader.tensors()[1].data_offset;
    for (const std::size_t tensor : {2, 1}) {  // 2 is small, and hashed before 1 is
      on_the_host[tensor][60'001] ^= std::byte{4};
      copy_from_host(on_the_host[tensor], on_device[tensor]);
      for (const std::vector<ConstBuffer>& views : {views_of(on_device), views_of(on_the_host)}) {
        for (const Verification verify : {Verification::kCrc32, Verification::kAll}) {
          if (verify == Verification::kCrc32 && chunk_bytes != 0) continue;
          const auto found = failure_of([&] { reader.check_loaded(views, verify); });
          ASSERT_TRUE(found && found->offset);
          EXPECT_THAT(found->rule, ::testing::StartsWith("TZR-HSH-"));
          EXPECT_EQ(*found->offset < first_data, tensor == 1) << *found->offset;
        }
      }
    }
  }
}

TEST_P(DeviceTest, OnlyMemoryOfAllTensorsIsChecked) {
  const Reader reader = open(write(several_sizes(), 0), false, 65'536);
  const DeviceTensors on_device = reader.load_into_device({});
  const LoadedTensors on_the_host = reader.load();
  const auto error_for = [&](std::vector<ConstBuffer> views, auto change) {
    change(views);
    return test::error_of([&] { reader.check_loaded(views); });
  };
  const auto shorten = [](auto& views) { views[1] = views[1].sub(0, views[1].size - 1); };
  const auto forget_one = [](auto& views) { views.pop_back(); };
  EXPECT_EQ(error_for(views_of(on_device), shorten), ErrorCode::kUsage);
  EXPECT_EQ(error_for(views_of(on_the_host), forget_one), ErrorCode::kUsage);
  EXPECT_EQ(error_for(views_of(on_device), [&](auto& views) { views[1] = on_the_host[1]; }), ErrorCode::kUsage);
}

// The others read as pwrite does, as far as this is concerned.
class DeviceCorpusTest : public DeviceTest {};

INSTANTIATE_TEST_SUITE_P(TwoPaths, DeviceCorpusTest, ::testing::Values("pwrite", "gpudirect"), test::test_name);

TEST_P(DeviceCorpusTest, EveryFileIsReadAsOnTheHost) {
  for (const nlohmann::json& test : test::manifest().at("cases")) {
    if (!test.contains("path")) continue;
    SCOPED_TRACE(test.at("id").get<std::string>());
    ReadOptions options = test::read_options(test);
    options.io_path = GetParam();
    options.piece_bytes = 4096;
    std::optional<Reader> reader;
    if (failure_of([&] {
          reader = Reader::open(test::corpus_directory() + test.at("path").get<std::string>(), std::move(options));
        })) {
      continue;  // that is no affair of the GPU
    }
    for (const Verification verify : {Verification::kNone, Verification::kAll}) {
      std::optional<LoadedTensors> on_host_memory;
      std::optional<DeviceTensors> on_device;
      const auto expected = failure_of([&] { on_host_memory = reader->load(verify); });
      const auto found = failure_of([&] {
        on_device =
            reader->load_into_device(test::in_small_copies({.verify = verify, .compute = DeviceCompute::kDevice}));
      });
      ASSERT_EQ(found.has_value(), expected.has_value());
      if (expected) {
        EXPECT_EQ(found->rule, expected->rule);
        continue;
      }
      for (std::size_t i = 0; i < on_host_memory->size(); ++i) {
        EXPECT_TRUE(std::ranges::equal(on_host((*on_device)[i]), (*on_host_memory)[i])) << i;
      }
      const auto at_once = failure_of([&] { reader->load(Verification::kAll); });
      EXPECT_EQ(failure_of([&] { reader->check_loaded(views_of(*on_device)); }), at_once);
      EXPECT_EQ(failure_of([&] { reader->check_loaded(views_of(*on_host_memory)); }), at_once);
    }
  }
}

// What is left registered is looked for after each test.
class DeviceFaultTest : public test::GpuDirectTest {
 protected:
  // Lets each call of libcufile fail that action makes.
  static void fail_each_call(const std::function<void()>& action) {
    orders().calls = 0;
    action();
    const std::int64_t calls = orders().calls;
    EXPECT_GT(calls, 10);
    int failures = 0;
    for (std::int64_t call = 0; call < calls; ++call) {
      orders().calls = 0;
      orders().fail_call = call;
      try {
        action();
      } catch (const Error& error) {
        ++failures;
        EXPECT_THAT(error.error_class(), ::testing::AnyOf(ErrorClass::kEnvironment, ErrorClass::kUnavailable));
        EXPECT_THAT(error.what(), ::testing::HasSubstr("cuFile"));
      }
      EXPECT_EQ(orders().files_registered, 0);
      EXPECT_EQ(orders().memory_registered, 0);
    }
    orders().fail_call = -1;
    // Memory that cannot be registered is no error: it moves all the same.
    EXPECT_GE(failures, calls / 2);
  }
};

TEST_F(DeviceFaultTest, EachFailedCallWhileLoadingIsOneClearError) {
  const std::string name = new_name();
  test::write_to(name, several_sizes(), 65'536);
  fail_each_call([&] {
    open_by("gpudirect", name, true, 65'536).load_into_device(test::in_small_copies({.verify = Verification::kNone}));
  });
}

TEST_F(DeviceFaultTest, EachFailedCallWhileWritingIsOneClearError) {
  const test::Content content = several_sizes();
  const std::string name = new_name();
  test::write_to(name, content, 0);
  const DeviceTensors loaded = open_by("pwrite", name, false, 65'536).load_into_device({});
  WriteOptions writing;
  writing.io_path = "gpudirect";
  writing.sha256 = false;
  writing.piece_bytes = 65'536;
  const std::string written = new_name();
  fail_each_call([&] {
    std::filesystem::remove(written);
    write_file(written, content.table, DeviceSource(views_of(loaded)), writing);
  });
}

}  // namespace
}  // namespace tzmark
