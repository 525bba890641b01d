// Copies to the GPU that are only started: when their memory may be used again, what fails, and what is left. The
// stand-in of libcuda lets them happen as late as CUDA may.
#include "codec/device_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "io/pinned_pool.h"
#include "testing/files/test_directory.h"
#include "testing/gpu/device_test.h"
#include "testing/gpu/fake_libraries.h"
#include "testing/gpu/gpu_test.h"
#include "tzmark/device_compute.h"

namespace tzmark {
namespace {

class DeviceFaultCopies : public ::testing::Test {
 protected:
  DeviceFaultCopies() {
    // Loads kernels, which is done once.
    EXPECT_EQ(why_no_device_compute(), "");
    test::free_kept();
    kept_ = orders().allocations;
    orders().late_copies = 0;
  }
  ~DeviceFaultCopies() override {
    orders().copies_late = false;
    orders().fail_call = -1;
    orders().secret = nullptr;
    test::free_kept();
    EXPECT_EQ(orders().streams, 0);
    EXPECT_EQ(orders().events, 0);
    EXPECT_EQ(test::fake_pinned_bytes(), 0U);
  }

  static test::FakeCudaOrders& orders() { return test::fake_orders(); }

  std::string write(std::uint64_t chunk_bytes) {
    const std::string name = directory_ / ("file-" + std::to_string(files_++));
    test::write_to(name, content_, chunk_bytes);
    return name;
  }

  const test::Content content_ = test::several_sizes();
  test::TestDirectory directory_;
  int files_ = 0;
  std::int64_t kept_ = 0;  // allocations, by the kernels
};

// What the tests below rely on: memory that is used again too early is seen on the device.
TEST_F(DeviceFaultCopies, AnOverwrittenBufferIsSeenOnTheDevice) {
  constexpr std::size_t kBytes = 8192;
  orders().copies_late = true;
  const DeviceMemory memory(2 * kBytes);
  const PinnedMemory early = PinnedPool::instance().take(kBytes, 0, false),
                     late = PinnedPool::instance().take(kBytes, 0, false);
  DeviceCopies copies(0, kBytes, false);
  for (const bool waits : {false, true}) {
    std::ranges::fill(early.bytes(), std::byte{1});
    auto* const started = copies.start_to_device(memory.buffer().data, early.bytes().first(kBytes));
    if (waits) copies.wait(started);
    std::ranges::fill(early.bytes(), std::byte{2});
    if (!waits) copies.wait(started);
    EXPECT_EQ(test::on_host(memory.buffer().sub(0, 1))[0], waits ? std::byte{1} : std::byte{2});
  }
  EXPECT_EQ(orders().late_copies, 2);
}

TEST_F(DeviceFaultCopies, LoadsAreRightHoweverLateCopiesHappen) {
  orders().copies_late = true;
  for (const std::uint64_t chunk_bytes : {0, 5'056, 299'968}) {
    const std::string name = write(chunk_bytes);
    for (const char* const path : {"pwrite", "mmap"}) {
      for (const unsigned threads : {1, 4}) {
        ReadOptions reading = chunk_bytes != 0 ? test::key_options() : ReadOptions();
        reading.piece_bytes = 65'536;
        reading.io_path = path;
        reading.threads = threads;
        const Reader reader = Reader::open(name, std::move(reading));
        for (const DeviceCompute compute : {DeviceCompute::kHost, DeviceCompute::kDevice}) {
          for (const Verification verify : {Verification::kNone, Verification::kAll}) {
            SCOPED_TRACE(fmt::format("{}, {} threads, chunks of {}, compute {}, verify {}", path, threads, chunk_bytes,
                                     static_cast<int>(compute), static_cast<int>(verify)));
            orders().late_copies = 0;
            const DeviceReadOptions options = test::in_small_copies({.verify = verify, .compute = compute});
            test::expect_same(content_, reader.load_into_device(options));
            EXPECT_GT(orders().late_copies, 10);
          }
        }
      }
    }
  }
}

TEST_F(DeviceFaultCopies, DamageIsFoundHoweverLateCopiesHappen) {
  orders().copies_late = true;
  const std::string name = write(0);
  const Reader reader = test::open_by("pwrite", name, false, 65'536);
  {
    const auto file = open_file(name, OpenMode::kModify);
    const std::uint64_t place = reader.tensors()[1].data_offset + 345'678;
    std::vector<std::byte> byte = test::read(*file, place, 1);
    byte[0] ^= std::byte{0x10};
    file->write_at(place, std::span(byte));
  }
  for (const DeviceCompute compute : {DeviceCompute::kHost, DeviceCompute::kDevice}) {
    for (int i = 0; i < 10; ++i) {
      EXPECT_EQ(test::error_of([&] { reader.load_into_device(test::in_small_copies({.compute = compute})); }),
                ErrorCode::kHashCrc32);
    }
  }
}

TEST_F(DeviceFaultCopies, EachFailedCallIsOneClearError) {
  for (const bool copies_late : {false, true}) {
    for (const DeviceCompute compute : {DeviceCompute::kHost, DeviceCompute::kDevice}) {
      orders().copies_late = copies_late;
      const std::string name = write(65'536);
      // One thread, so that the calls are the same each time.
      ReadOptions reading = test::key_options();
      reading.piece_bytes = 65'536;
      reading.threads = 1;
      const Reader reader = Reader::open(name, std::move(reading));
      const auto load = [&] { reader.load_into_device(test::in_small_copies({.compute = compute})); };
      orders().calls = 0;
      load();
      const std::int64_t calls = orders().calls;
      EXPECT_GT(calls, 40);
      int failures = 0;
      for (std::int64_t call = 0; call < calls; ++call) {
        orders().calls = 0;
        orders().fail_call = call;
        test::free_kept();
        try {
          load();
        } catch (const Error& error) {
          ++failures;
          EXPECT_EQ(error.code(), ErrorCode::kResource) << error.message();
          EXPECT_THAT(error.message(), ::testing::ContainsRegex(test::kRefusedCall));
        }
        orders().fail_call = -1;
        test::free_kept();
        EXPECT_EQ(orders().allocations, kept_) << "at call " << call;
        EXPECT_EQ(orders().streams, 0) << "at call " << call;
        EXPECT_EQ(orders().events, 0) << "at call " << call;
        EXPECT_EQ(test::fake_pinned_bytes(), 0U) << "at call " << call;
      }
      orders().fail_call = -1;
      // Only the last waits of destructors, for streams that have nothing left to do, may fail unseen.
      EXPECT_GE(failures, calls - 4);
    }
  }
}

// Into memory of the caller, between whose tensors nothing may be written.
TEST_F(DeviceFaultCopies, SmallTensorsOfTheCallerAreCopiedTogether) {
  constexpr std::size_t kTensors = 200, kBytes = 100, kStride = 128;
  test::Content content;
  for (std::size_t i = 0; i < kTensors; ++i) content.add({"t", std::uint64_t{i}}, "uint8", {kBytes});
  const std::string name = directory_ / "small";
  test::write_to(name, content, 0);
  ReadOptions reading;
  reading.threads = 1;
  const Reader reader = Reader::open(name, std::move(reading));
  const DeviceMemory memory(kTensors * kStride);
  std::vector<ReadTarget> targets;
  for (std::size_t i = 0; i < kTensors; ++i) targets.push_back({i, memory.buffer().sub(i * kStride, kBytes)});
  for (const bool copies_late : {false, true}) {
    orders().copies_late = copies_late;
    const std::vector<std::byte> others(memory.buffer().size, std::byte{0x55});
    copy_from_host(others, memory.buffer());
    const std::int64_t waits = orders().stream_waits;
    reader.read_into_device(targets, {});
    EXPECT_LE(orders().stream_waits - waits, 10);
    for (std::size_t i = 0; i < kTensors; ++i) {
      EXPECT_EQ(test::on_host(targets[i].out), content.data[i]) << i;
      const ConstBuffer gap = ConstBuffer(memory.buffer()).sub(i * kStride + kBytes, kStride - kBytes);
      EXPECT_EQ(test::on_host(gap), std::vector(kStride - kBytes, std::byte{0x55})) << i;
    }
  }
  orders().calls = 0;
  reader.read_into_device(targets, {});
  const std::int64_t calls = orders().calls;
  EXPECT_GT(calls, static_cast<std::int64_t>(kTensors));
  const std::int64_t streams = orders().streams, events = orders().events;
  for (std::int64_t call = 0; call < calls; ++call) {
    orders().calls = 0;
    orders().fail_call = call;
    const auto error = test::error_of([&] { reader.read_into_device(targets, {}); });
    orders().fail_call = -1;
    // The last wait of a destructor may fail unseen.
    if (error || call < calls - 4) {
      EXPECT_EQ(error, ErrorCode::kResource) << call;
    }
    EXPECT_EQ(orders().streams, streams) << call;
    EXPECT_EQ(orders().events, events) << call;
  }
}

TEST_F(DeviceFaultCopies, DecryptedBytesAreNotLeftInThePool) {
  const Reader reader = test::open_by("pwrite", write(65'536), true, 65'536);
  const Reader plain = test::open_by("pwrite", write(0), false, 65'536);
  // How often bytes of a tensor are in pinned memory that is given up after a load.
  const auto found_after = [&](const Reader& loads, std::span<const std::byte> bytes) {
    const DeviceTensors loaded = loads.load_into_device(test::in_small_copies({.compute = DeviceCompute::kHost}));
    EXPECT_GT(PinnedPool::instance().idle_bytes(), 0U);
    orders().secret = bytes.data();
    orders().secret_bytes = bytes.size();
    orders().secrets_left = 0;
    test::free_kept();
    orders().secret = nullptr;
    return orders().secrets_left.load();
  };
  int found = 0;
  for (const std::size_t tensor : {1, 2, 4, 6, 7, 10}) {
    const std::span all(content_.data[tensor]);
    // The ends of the last tensors are in buffers that no later piece has used.
    for (const auto bytes : {all.first(32), all.last(32)}) {
      EXPECT_EQ(found_after(reader, bytes), 0) << tensor;
      if (found_after(plain, bytes) > 0) ++found;
    }
  }
  // So that the others say something.
  EXPECT_GT(found, 0);
}

TEST_F(DeviceFaultCopies, ASecondLoadPinsNothing) {
  const Reader reader = test::open_by("pwrite", write(0), false, 65'536);
  for (int i = 0; i < 2; ++i) reader.load_into_device(test::in_small_copies());
  const std::size_t pinned_bytes = test::fake_pinned_bytes();
  EXPECT_GT(pinned_bytes, 0U);
  for (int i = 0; i < 5; ++i) reader.load_into_device(test::in_small_copies());
  EXPECT_LE(test::fake_pinned_bytes(), 2 * pinned_bytes);
}

TEST_F(DeviceFaultCopies, AfterWarmingUpALoadPinsNothing) {
  for (const char* const path : {"pwrite", "direct", "uring"}) {
    for (const Verification verify : {Verification::kAll, Verification::kCrc32, Verification::kNone}) {
      SCOPED_TRACE(std::string(path) + " " + std::to_string(static_cast<int>(verify)));
      ReadOptions reading;
      reading.io_path = path;
      reading.threads = 1;
      const Reader reader = Reader::open(write(0), std::move(reading));
      const DeviceReadOptions options{.verify = verify};
      warm_up(options, 1);
      const std::size_t pinned_bytes = test::fake_pinned_bytes();
      EXPECT_GT(pinned_bytes, 0U);
      warm_up(options, 1);
      EXPECT_EQ(test::fake_pinned_bytes(), pinned_bytes);
      reader.load_into_device(options);
      EXPECT_EQ(test::fake_pinned_bytes(), pinned_bytes);
      test::free_kept();
    }
  }
}

// Messages between the piece size of the Reader and that of the copies, in more tensors than threads can hash.
TEST_F(DeviceFaultCopies, MessagesAreDecryptedWhole) {
  test::Content content;
  for (std::uint64_t i = 0; i < 9; ++i) content.add({"t", i}, "uint8", {700'000 + i});
  const std::string name = directory_ / "messages";
  test::write_to(name, content, 299'968);
  for (const char* const path : {"pwrite", "gpudirect"}) {
    for (const unsigned threads : {1, 2}) {
      ReadOptions reading = test::key_options();
      reading.piece_bytes = 65'536;
      reading.io_path = path;
      reading.threads = threads;
      const Reader reader = Reader::open(name, std::move(reading));
      for (const Verification verify : {Verification::kNone, Verification::kAll}) {
        for (const std::size_t piece_bytes : {65'536, 300'000, 8'380'416}) {
          SCOPED_TRACE(fmt::format("{}, {} threads, pieces of {}", path, threads, piece_bytes));
          test::expect_same(content,
                            reader.load_into_device(
                                {.verify = verify, .compute = DeviceCompute::kDevice, .piece_bytes = piece_bytes}));
        }
      }
    }
  }
}

TEST_F(DeviceFaultCopies, RefusesSizesThatCannotBe) {
  const Reader reader = test::open_by("mmap", write(0), false, 65'536);
  for (const std::size_t bytes : {~std::size_t{0}, (std::size_t{1} << 40) + 1}) {
    EXPECT_EQ(test::error_of([&] { reader.load_into_device({.verify = Verification::kNone, .piece_bytes = bytes}); }),
              ErrorCode::kUsage);
  }
}

// An encrypted write that is cancelled has plaintext in its buffers.
TEST_F(DeviceFaultCopies, ACancelledWriteLeavesNoPlaintextInThePool) {
  const DeviceTensors loaded = test::open_by("pwrite", write(0), false, 65'536).load_into_device({});
  const DeviceSource source(test::views_of(loaded));
  test::free_kept();
  WriteOptions writing;
  writing.piece_bytes = 65'536;
  writing.encrypt = test::with_key(65'536);
  writing.progress = [](std::uint64_t) { throw Error(ErrorCode::kResource, "cancelled"); };
  for (std::size_t piece = 0; piece < 9; ++piece) {
    EXPECT_THROW(write_file(directory_ / "cancelled", content_.table, source, writing), Error);
    const std::span<const std::byte> bytes = std::span(content_.data[1]).subspan(piece * 65'536, 32);
    orders().secret = bytes.data();
    orders().secret_bytes = bytes.size();
    orders().secrets_left = 0;
    test::free_kept();
    orders().secret = nullptr;
    EXPECT_EQ(orders().secrets_left, 0) << piece;
  }
}

// The limit holds for what is pinned while a call runs.
TEST_F(DeviceFaultCopies, PinsNoMoreThanAsked) {
  const std::string name = write(0);
  ReadOptions reading;
  reading.piece_bytes = 65'536;
  reading.threads = 2;
  const Reader reader = Reader::open(name, std::move(reading));
  DeviceReadOptions options = test::in_small_copies({.verify = Verification::kNone});
  options.pinned_bytes_max = 300'000;
  test::expect_same(content_, reader.load_into_device(options));
  // Four pieces, and memory for small tensors of each thread.
  EXPECT_LE(test::fake_pinned_bytes(), 300'000U + 2 * 65'536);
}

// The stand-in has two GPUs, each with memory, streams and kernels of its own.
class DeviceFaultSecondGpu : public DeviceFaultCopies {
 protected:
  // No call leaves a context behind in the thread of the caller.
  ~DeviceFaultSecondGpu() override { EXPECT_FALSE(test::of_fake<bool()>("tzmark_fake_has_context")()); }
};

TEST_F(DeviceFaultSecondGpu, GetsTheTensorsThatAreForIt) {
  for (const std::uint64_t chunk_bytes : {0, 65'536}) {
    for (const char* const path : {"pwrite", "gpudirect"}) {
      const Reader reader = test::open_by(path, write(chunk_bytes), chunk_bytes != 0, 65'536);
      for (const DeviceCompute compute : {DeviceCompute::kAuto, DeviceCompute::kDevice}) {
        for (const Verification verify : {Verification::kNone, Verification::kAll}) {
          SCOPED_TRACE(fmt::format("{}, chunks of {}", path, chunk_bytes));
          const DeviceTensors loaded =
              reader.load_into_device(test::in_small_copies({.verify = verify, .compute = compute, .device = 1}));
          EXPECT_EQ(device_of(loaded.all()), 1);
          test::expect_same(content_, loaded);
        }
      }
    }
  }
}

TEST_F(DeviceFaultSecondGpu, IsFoundByTheMemoryOfTheCaller) {
  const Reader reader = test::open_by("pwrite", write(65'536), true, 65'536);
  const DeviceMemory memory(content_.data[1].size(), 1);
  EXPECT_EQ(memory.device(), 1);
  reader.read_into_device(1, memory.buffer(), test::in_small_copies({.compute = DeviceCompute::kDevice}));
  EXPECT_EQ(test::on_host(memory.buffer()), content_.data[1]);
  fill_with_zeros(memory.buffer());
  EXPECT_EQ(test::on_host(memory.buffer()), std::vector(content_.data[1].size(), std::byte{}));
}

TEST_F(DeviceFaultSecondGpu, IsASourceForAWriter) {
  const DeviceTensors loaded = test::open_by("pwrite", write(0), false, 65'536).load_into_device({.device = 1});
  const DeviceSource source(test::views_of(loaded));
  for (const bool sha256 : {false, true}) {
    for (const char* const path : {"pwrite", "gpudirect"}) {
      WriteOptions writing;
      writing.sha256 = sha256;
      writing.io_path = path;
      writing.piece_bytes = 65'536;
      const std::string name = directory_ / ("written-" + std::to_string(files_++));
      write_file(name, content_.table, source, writing);
      test::expect_same(content_, test::open_by("pwrite", name, false, 65'536).load_into_device({}));
    }
  }
}

TEST_F(DeviceFaultSecondGpu, ItsMemoryIsCopiedToTheHostTogetherWithThatOfTheFirst) {
  const test::Bytes content = test::random_bytes(3000, 5);
  DeviceMemory first(content.size(), 0), second(content.size(), 1);
  first.copy_from_host(0, content);
  second.copy_from_host(0, content);
  const auto copy = [&] {
    test::Bytes host(content.size());
    const std::span<std::byte> out = host;
    const std::array<CopyToHost, 5> copies = {{{first.buffer().sub(0, 1000), out.first(1000)},
                                               {first.buffer().sub(1000, 500), out.subspan(1000, 500)},
                                               {second.buffer().sub(1500, 0), out.subspan(1500, 0)},
                                               {second.buffer().sub(1500, 1000), out.subspan(1500, 1000)},
                                               {first.buffer().sub(2500, 500), out.subspan(2500, 500)}}};
    copy_to_host(copies);
    return host;
  };
  orders().copies_late = true;
  EXPECT_EQ(copy(), content);
  const std::int64_t calls = [&] {
    const std::int64_t before = orders().calls;
    static_cast<void>(copy());
    return orders().calls - before;
  }();
  EXPECT_EQ(calls, 10 + 9);  // four copies on three streams, and questions for the GPU of the memory
  for (std::int64_t i = 0; i < calls; ++i) {
    orders().fail_call = orders().calls + i;
    try {
      EXPECT_EQ(copy(), content) << i;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kResource) << i;
    }
    orders().fail_call = -1;
    EXPECT_EQ(orders().streams, 0) << i;
  }
}

TEST_F(DeviceFaultSecondGpu, DoesNotComputeOnMemoryOfTheFirst) {
  const DeviceMemory first(1000, 0), second(1000, 1);
  const std::array<ConstBuffer, 3> ranges = {first.buffer().sub(0, 0), second.buffer(), first.buffer()};
  EXPECT_EQ(crc32_on_device(std::span(ranges).first(2)).size(), 2U);
  try {
    static_cast<void>(crc32_on_device(ranges));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUsage);
    EXPECT_EQ(error.message(), "memory of GPU 1 and of GPU 0 in one call");
  }
}

TEST_F(DeviceFaultSecondGpu, IsTheLast) {
  try {
    const DeviceMemory third(1, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnavailable);
    EXPECT_EQ(error.message(), "GPU 2: CUDA knows 2 here, counted from 0");
  }
  for (const int device : {-1, -2}) {
    EXPECT_EQ(test::error_of([&] { const DeviceMemory none(1, device); }), ErrorCode::kUnavailable);
  }
}

TEST_F(DeviceFaultSecondGpu, MemoryOfNoGpuIsRefused) {
  std::vector<std::byte> host(10);
  EXPECT_EQ(test::error_of([&] {
              static_cast<void>(device_of({host.data(), host.size(), MemoryKind::kDevice}));
            }),
            ErrorCode::kUsage);
}

}  // namespace
}  // namespace tzmark
