// CRC32 of device memory is what zlib says of the same bytes, wherever ranges and segments begin and end.
#include "gpu/crc32.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

#include "gpu/crc32_call.h"
#include "gpu/crc32_matrix.h"
#include "gpu/crc32_tables.h"
#include "gpu/read_kernel.h"
#include "gpu/work.h"
#include "testing/gpu/gpu_test.h"

namespace tzmark::test {
namespace {

// Another polynomial multiplication, one bit of the product after the other.
std::uint32_t multiply_slowly(std::uint32_t a, std::uint32_t b) {
  std::uint64_t product = 0;  // x^0 in bit 63
  for (int i = 0; i < 32; ++i) {
    for (int j = 0; j < 32; ++j) {
      if ((a >> (31 - i) & 1) != 0 && (b >> (31 - j) & 1) != 0) product ^= std::uint64_t{1} << (63 - i - j);
    }
  }
  for (int power = 62; power >= 32; --power) {
    if ((product >> (63 - power) & 1) == 0) continue;
    product ^= std::uint64_t{1} << (63 - power);
    product ^= std::uint64_t{gpu::kCrc32Polynomial} << (32 - (power - 32));
  }
  return static_cast<std::uint32_t>(product >> 32);
}

std::uint32_t by_zlib(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

struct Range {
  std::size_t begin, bytes;
};

std::vector<std::uint32_t> crcs_by_zlib(const Bytes& content, const std::vector<Range>& ranges) {
  std::vector<std::uint32_t> crcs;
  for (const Range& range : ranges) {
    crcs.push_back(by_zlib(std::span(content).subspan(range.begin, range.bytes)));
  }
  return crcs;
}

// Both kernels on the same ranges.
void expect_crcs(const Bytes& content, const std::vector<Range>& ranges) {
  const DeviceMemory memory = on_device(content);
  std::vector<ConstBuffer> buffers;
  for (const Range& range : ranges) buffers.push_back(ConstBuffer(memory.buffer()).sub(range.begin, range.bytes));
  const std::vector<std::uint32_t> expected = crcs_by_zlib(content, ranges);
  for (const auto method : {gpu::Crc32Method::kTables, gpu::Crc32Method::kMatrix}) {
    if (method == gpu::Crc32Method::kMatrix && !gpu::Kernels::of(0).has_crc32_matrix()) continue;
    const std::vector<std::uint32_t> results = gpu::crc32_by(method, 0, buffers);
    ASSERT_EQ(results.size(), ranges.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      ASSERT_EQ(results[i], expected[i]) << ranges[i].bytes << " bytes at " << ranges[i].begin
                                         << (method == gpu::Crc32Method::kTables ? " by tables" : " by matrix");
    }
  }
  EXPECT_EQ(crc32_on_device(buffers), expected);
}

TEST(Crc32Arithmetic, MultipliesAsByHand) {
  std::mt19937 random(1);
  std::vector<std::uint32_t> values = {0, 1, 2, 0xFFFFFFFF, gpu::kCrc32One, gpu::kCrc32One >> 1, gpu::kCrc32Polynomial};
  for (int i = 0; i < 30; ++i) values.push_back(static_cast<std::uint32_t>(random()));
  for (const std::uint32_t a : values) {
    EXPECT_EQ(gpu::crc32_multiply(a, gpu::kCrc32One), a);
    EXPECT_EQ(gpu::crc32_multiply(a, 0), 0U);
    for (const std::uint32_t b : values) ASSERT_EQ(gpu::crc32_multiply(a, b), multiply_slowly(a, b)) << a << " " << b;
  }
}

TEST(Crc32Arithmetic, ShiftsAsZlibDoes) {
  const std::uint64_t large = (std::uint64_t{1} << 40) + 12'345;
  for (const std::uint64_t bytes :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{4}, std::uint64_t{8'192}, large}) {
    for (const std::uint32_t crc : {1U, 0x80000000U, 0xDEADBEEFU}) {
      EXPECT_EQ(gpu::crc32_multiply(crc, gpu::crc32_shift(bytes)),
                ::crc32_combine(crc, 0, static_cast<z_off_t>(bytes)));
    }
  }
}

TEST(Crc32Arithmetic, TheTablesTakeEveryBitOnce) {
  constexpr gpu::Crc32Tables kTables = gpu::make_crc32_tables();
  const auto shared = std::make_unique<gpu::Crc32TablesShared>();
  for (unsigned i = 0; i < gpu::kCrc32TableEntries * gpu::kLanes; ++i) {
    shared->table[i] = kTables.table[i / gpu::kLanes];
  }
  const std::uint32_t stride = gpu::crc32_shift(gpu::kCrc32RoundBytes);
  for (unsigned bit = 0; bit < 32; ++bit) {
    for (unsigned lane = 0; lane < gpu::kLanes; ++lane) {
      EXPECT_EQ(gpu::crc32_next_round(*shared, 1U << bit, 4 * lane), gpu::crc32_multiply(1U << bit, stride));
    }
  }
  EXPECT_EQ(gpu::crc32_next_round(*shared, 0xFFFFFFFF, 0), gpu::crc32_multiply(0xFFFFFFFF, stride));
}

TEST(Crc32Arithmetic, TheComparisonSeesADifference) {
  const DeviceMemory memory = on_device(random_bytes(100, 2));
  const std::array range = {ConstBuffer(memory.buffer())};
  EXPECT_NE(crc32_on_device(range)[0], by_zlib(random_bytes(100, 3)));
}

TEST(Crc32OnDevice, NothingAtAll) {
  EXPECT_TRUE(crc32_on_device({}).empty());
  const std::array<ConstBuffer, 2> empty = {ConstBuffer(nullptr, 0, MemoryKind::kDevice),
                                            ConstBuffer(nullptr, 0, MemoryKind::kDevice)};
  EXPECT_EQ(crc32_on_device(empty), std::vector<std::uint32_t>(2, 0));
}

TEST(Crc32OnDevice, SmallSizesAtAnyAddress) {
  const Bytes content = random_bytes(1'000, 4);
  std::vector<Range> ranges;
  for (std::size_t bytes = 0; bytes <= 300; ++bytes) ranges.push_back({bytes % 19, bytes});
  for (std::size_t begin = 0; begin < 32; ++begin) {
    for (std::size_t bytes = 0; bytes < 40; ++bytes) ranges.push_back({begin, bytes});
  }
  expect_crcs(content, ranges);
}

TEST(Crc32OnDevice, BordersOfRounds) {
  const Bytes content = random_bytes(8 * gpu::kCrc32RoundBytes, 5);
  std::vector<Range> ranges;
  for (const std::size_t rounds : {1, 2, 3, 6, 7}) {
    for (const int more : {-17, -16, -5, -1, 0, 1, 4, 15, 16, 17}) {
      for (const std::size_t begin : {0, 1, 2, 3, 4, 7, 15, 16}) {
        ranges.push_back({begin, rounds * gpu::kCrc32RoundBytes + more});
      }
    }
  }
  expect_crcs(content, ranges);
}

TEST(Crc32OnDevice, BordersOfSteps) {
  const Bytes content = random_bytes(2 * gpu::kCrc32TileBytes + 100, 9);
  std::vector<Range> ranges;
  for (std::size_t bytes = 0; bytes < content.size() - 16; bytes += gpu::kCrc32StepBytes) {
    for (const std::size_t begin : {0, 1, 15}) ranges.push_back({begin, bytes + begin % 3});
  }
  expect_crcs(content, ranges);
}

TEST(Crc32OnDevice, BordersOfSegments) {
  // A segment of both kernels has 128 KiB, if there is little.
  constexpr std::size_t kSegmentBytes = gpu::kCrc32MatrixSegmentBytes;
  const Bytes content = random_bytes(4 * kSegmentBytes + 100, 6);
  std::vector<Range> ranges;
  for (const std::size_t segments : {1, 2, 3, 4}) {
    for (const int more : {-33, -16, -3, -1, 0, 1, 3, 4, 5, 16, 31}) {
      for (const std::size_t begin : {0, 5, 16}) ranges.push_back({begin, segments * kSegmentBytes + more});
    }
  }
  expect_crcs(content, ranges);
}

TEST(Crc32OnDevice, LargeRangesHaveLargeSegments) {
  const Bytes content = random_bytes((24 << 20) + 77, 7);
  expect_crcs(content, {{0, content.size()}, {3, content.size() - 3}, {1, 1}});
}

TEST(Crc32OnDevice, ThousandsOfRangesOfAllSizes) {
  const Bytes content = random_bytes(300'000, 8);
  std::mt19937_64 random(8);
  std::vector<Range> ranges;
  for (int i = 0; i < 5'000; ++i) {
    const std::size_t bytes = i % 100 == 0 ? random() % 200'000 : random() % 200;
    ranges.push_back({random() % (content.size() - bytes), bytes});
  }
  expect_crcs(content, ranges);
}

TEST(Crc32OnDevice, SaysHowLongItsKernelTook) {
  const DeviceMemory memory = on_device(random_bytes(1 << 20, 10));
  const std::array range = {ConstBuffer(memory.buffer())};
  std::chrono::nanoseconds time{};
  const auto begin = std::chrono::steady_clock::now();
  static_cast<void>(crc32_on_device(range, &time));
  EXPECT_GT(time.count(), 0);
  EXPECT_LT(time, std::chrono::steady_clock::now() - begin);
}

TEST(ReadOnDevice, ReadsAnySize) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{gpu::kReadTileBytes - 1}, std::size_t{5 * gpu::kReadTileBytes + 77}}) {
    const DeviceMemory memory = on_device(random_bytes(bytes + 1, 11));
    std::chrono::nanoseconds time{};
    read_on_device(memory.buffer().sub(0, bytes), &time);
    EXPECT_EQ(time.count() > 0, bytes > 0) << bytes;
  }
}

TEST(Crc32OnDevice, ZerosAndOnes) {
  for (const std::byte value : {std::byte{0}, std::byte{0xFF}}) {
    const Bytes content(20'000, value);
    expect_crcs(content, {{0, 20'000}, {0, 1}, {1, 3}, {7, 19'000}});
  }
}

}  // namespace
}  // namespace tzmark::test
