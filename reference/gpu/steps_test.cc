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

#include "gpu/crc32.h"
#include "gpu/secretbox_kernel.h"
#include "testing/files/test_directory.h"

namespace tzmark::gpu {
namespace {

// One thread of the only block.
class ThreadOfBlock {
 public:
  ThreadOfBlock(unsigned thread, std::barrier<>& barrier) : thread_(thread), barrier_(barrier) {}

  static unsigned number() { return 0; }
  static unsigned count() { return 1; }
  template <typename Step>
  void each(Step&& step) const {
    step(thread_);
    barrier_.arrive_and_wait();
  }

 private:
  unsigned thread_;
  std::barrier<>& barrier_;
};

template <typename Shared, typename Kernel>
void run_with_threads(unsigned threads, const Kernel& kernel) {
  const auto shared = std::make_unique<Shared>();
  std::barrier barrier(static_cast<std::ptrdiff_t>(threads));
  std::vector<std::jthread> running;
  for (unsigned thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] { kernel(ThreadOfBlock(thread, barrier), *shared); });
  }
}

std::uint64_t address_of(const std::byte* data) { return reinterpret_cast<std::uintptr_t>(data); }
unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

TEST(FakeSteps, OfCrc32) {
  // Two segments, so that the second finds what the first has left.
  const test::Bytes content = test::random_bytes(4 * kCrc32RoundBytes + 5, 1);
  constexpr std::uint32_t kFirstBytes = 3 * kCrc32RoundBytes + 7;
  const auto second_bytes = static_cast<std::uint32_t>(content.size()) - kFirstBytes;
  const std::array<Crc32Segment, 2> segments = {
      Crc32Segment{address_of(content.data()), kFirstBytes, 0, crc32_shift(second_bytes), kCrc32Prefix},
      Crc32Segment{address_of(content.data()) + kFirstBytes, second_bytes, 0, kCrc32One, 0}};
  std::uint32_t result = 0;
  const Crc32Arguments arguments{segments.data(), segments.size(), &result, make_crc32_constants()};
  run_with_threads<Crc32Shared>(
      kCrc32Threads, [&](const ThreadOfBlock& block, Crc32Shared& shared) { crc32_kernel(block, shared, arguments); });
  EXPECT_EQ(~result, ::crc32_z(0, reinterpret_cast<const unsigned char*>(content.data()), content.size()));
}

TEST(FakeSteps, OfOpening) {
  // Two tiles of key stream, a message that does not open, and one that follows it in the same word.
  const std::array<std::size_t, 3> sizes = {20'001, 50, 4'200};
  const test::Bytes plain = test::random_bytes(sizes[0] + sizes[1] + sizes[2], 1);
  test::Bytes content = plain;
  const std::array<std::uint32_t, 8> key = {1, 2, 3, 4, 5, 6, 7, 8};
  std::array<SecretboxMessage, 3> messages{};
  std::size_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
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
  std::copy_n(content.begin() + 20'001, 50, expected.begin() + 20'001);
  std::array<std::uint32_t, 3> results{};
  run_with_threads<SecretboxShared>(kSecretboxThreads, [&](const ThreadOfBlock& block, SecretboxShared& shared) {
    secretbox_kernel(block, shared, {key.data(), messages.data(), messages.size(), results.data()});
  });
  EXPECT_EQ(results, (std::array{kSecretboxOpened, kSecretboxWrongMac, kSecretboxOpened}));
  EXPECT_EQ(content, expected);
}

}  // namespace
}  // namespace tzmark::gpu
