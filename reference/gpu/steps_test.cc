// Kernels with a thread of the host for each thread of a block: what a thread sanitizer says about their steps is what
// would go wrong between the barriers of a GPU.
#include <gtest/gtest.h>
#include <sodium.h>
#include <zlib.h>

#include <array>
#include <barrier>
#include <memory>
#include <thread>
#include <vector>

#include "gpu/crc32_matrix.h"
#include "gpu/crc32_tables.h"
#include "gpu/secretbox_kernel.h"
#include "testing/files/test_directory.h"
#include "testing/gpu/host_block.h"

namespace tzmark::gpu {
namespace {

// What the threads of a warp share: they wait for each other, and see each other's values.
struct SharedByWarp {
  std::barrier<> barrier{kLanes};
  PerLane<std::uint32_t> values;
  PerLane<Words> rows;
  PerLane<BitColumn> columns;
};

// One lane of a warp.
class LaneOfWarp {
 public:
  LaneOfWarp(unsigned lane, SharedByWarp& shared) : lane_(lane), shared_(shared) {}

  template <typename Step>
  void each(Step&& step) const {
    step(lane_);
  }
  void sync() const { shared_.barrier.arrive_and_wait(); }
  template <typename From>
  void exchange(PerLane<std::uint32_t>& value, From&& from) const {
    shared_.values[lane_] = value[lane_];
    sync();
    value[lane_] = shared_.values[from(lane_)];
    sync();
  }
  std::uint32_t of_first_lane(const PerLane<std::uint32_t>& value) const {
    PerLane<std::uint32_t> first;
    first[lane_] = value[lane_];
    exchange(first, [](unsigned) { return 0U; });
    return first[lane_];
  }
  void add_products(PerLane<BitCounts>& counts, const PerLane<Words>& rows, const PerLane<BitColumn>& columns) const {
    shared_.rows[lane_] = rows[lane_];
    shared_.columns[lane_] = columns[lane_];
    sync();
    add_products_of_lane(lane_, counts[lane_], shared_.rows, shared_.columns);
    sync();
  }

 private:
  unsigned lane_;
  SharedByWarp& shared_;
};

// One thread of the only block.
class ThreadOfBlock {
 public:
  ThreadOfBlock(unsigned thread, std::barrier<>& barrier, SharedByWarp& warp)
      : thread_(thread), barrier_(barrier), warp_(warp) {}

  static unsigned number() { return 0; }
  static unsigned count() { return 1; }
  template <typename Step>
  void each(Step&& step) const {
    step(thread_);
    barrier_.arrive_and_wait();
  }
  template <typename Part>
  void each_warp(Part&& part) const {
    part(LaneOfWarp(thread_ % kLanes, warp_), thread_ / kLanes);
    barrier_.arrive_and_wait();
  }

 private:
  unsigned thread_;
  std::barrier<>& barrier_;
  SharedByWarp& warp_;
};

template <typename Shared, typename Kernel>
void run_with_threads(unsigned threads, const Kernel& kernel) {
  const auto shared = std::make_unique<Shared>();
  std::barrier barrier(static_cast<std::ptrdiff_t>(threads));
  const auto warps = std::make_unique<SharedByWarp[]>(threads / kLanes);
  std::vector<std::jthread> running;
  for (unsigned thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] { kernel(ThreadOfBlock(thread, barrier, warps[thread / kLanes]), *shared); });
  }
}

std::uint64_t address_of(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// Two ranges of several segments each, so that the second segment finds what the first has left.
class FakeStepsOfCrc32 : public ::testing::Test {
 protected:
  FakeStepsOfCrc32() {
    std::uint32_t segments = 0;
    std::size_t at = 3;
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      const std::uint64_t address = address_of(content_.data()) + at;
      ranges_[i] = {address, kRangeBytes[i], segments, 0};
      segments += static_cast<std::uint32_t>(crc32_segment_count(address, kRangeBytes[i], kSegmentBytes));
      at += kRangeBytes[i];
    }
    arguments_ = {ranges_.data(), 2, segments, kSegmentBytes, &counter_, results_.data(), make_crc32_shifts()};
  }

  void expect_results() const {
    for (std::size_t i = 0; i < ranges_.size(); ++i) {
      EXPECT_EQ(~results_[i], ::crc32_z(0, reinterpret_cast<const unsigned char*>(ranges_[i].address), kRangeBytes[i]));
    }
  }

  static constexpr std::uint32_t kSegmentBytes = 5 * kCrc32TileBytes / 2;
  static constexpr std::array<std::size_t, 2> kRangeBytes = {2 * kSegmentBytes + 1'000, kSegmentBytes + 77};

  test::Bytes content_ = test::random_bytes(kRangeBytes[0] + kRangeBytes[1] + 3, 1);
  std::array<Crc32Range, 2> ranges_{};
  std::uint32_t counter_ = 0;
  std::array<std::uint32_t, 2> results_{};
  Crc32Arguments arguments_{};
};

TEST_F(FakeStepsOfCrc32, ByTables) {
  const Crc32TablesArguments arguments{arguments_, make_crc32_tables()};
  run_with_threads<Crc32TablesShared>(kCrc32TablesThreads, [&](const ThreadOfBlock& block, Crc32TablesShared& shared) {
    crc32_tables_kernel(block, shared, arguments);
  });
  expect_results();
}

TEST_F(FakeStepsOfCrc32, ByMatrix) {
  const auto matrix = std::make_unique<Crc32Matrix>();
  make_crc32_matrix(*matrix);
  Crc32MatrixArguments arguments{arguments_, reinterpret_cast<std::uintptr_t>(matrix.get()), {}};
  make_crc32_row_shifts(arguments.row_shift);
  run_with_threads<Crc32MatrixShared>(kCrc32MatrixThreads, [&](const ThreadOfBlock& block, Crc32MatrixShared& shared) {
    crc32_matrix_kernel(block, shared, arguments);
  });
  expect_results();
}

TEST(FakeSteps, OfOpening) {
  // Two chunks, a message that does not open, and one that follows it in the same word.
  const std::array<std::size_t, 3> sizes = {40'001, 50, 4'200};
  const test::Bytes plain = test::random_bytes(sizes[0] + sizes[1] + sizes[2], 1);
  test::Bytes content = plain;
  const std::array<std::uint32_t, 8> key = {1, 2, 3, 4, 5, 6, 7, 8};
  std::array<SecretboxMessage, 3> messages{};
  std::size_t at = 0;
  std::uint32_t chunks = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    messages[i].first = chunks;
    chunks += static_cast<std::uint32_t>(secretbox_chunk_count(sizes[i]));
    messages[i].address = address_of(content.data()) + at;
    messages[i].bytes = sizes[i];
    messages[i].nonce[5] = static_cast<std::uint32_t>(i);
    crypto_secretbox_detached(
        raw(content.data() + at), reinterpret_cast<unsigned char*>(messages[i].mac), raw(content.data() + at), sizes[i],
        reinterpret_cast<const unsigned char*>(messages[i].nonce), reinterpret_cast<const unsigned char*>(key.data()));
    at += sizes[i];
  }
  messages[1].mac[0] ^= 1;
  test::Bytes expected = plain;
  std::copy_n(content.begin() + 40'001, 50, expected.begin() + 40'001);
  std::array<std::uint32_t, 3> results{};
  std::array<SecretboxKeys, 3> keys{};
  std::vector<Limbs> shares(chunks);
  const SecretboxArguments arguments{key.data(),    messages.data(), 3, chunks, results.data(), keys.data(),
                                     shares.data(), kSalsa20Factor};
  run_with_threads<SecretboxShared>(kSecretboxThreads, [&](const ThreadOfBlock& block, SecretboxShared& shared) {
    secretbox_keys_kernel(block, arguments);
    secretbox_macs_kernel(block, arguments);
    secretbox_verdicts_kernel(block, arguments);
    secretbox_open_kernel(block, shared, arguments);
  });
  EXPECT_EQ(results, (std::array{kSecretboxOpened, kSecretboxWrongMac, kSecretboxOpened}));
  EXPECT_EQ(content, expected);
}

}  // namespace
}  // namespace tzmark::gpu
