// Messages in device memory open as libsodium sealed them, and only then.
#include <gtest/gtest.h>
#include <sodium.h>

#include <random>

#include "gpu/secretbox_kernel.h"
#include "testing/gpu/gpu_test.h"
#include "testing/gpu/host_block.h"

namespace tzmark::test {
namespace {

using Key = std::array<std::byte, 32>;
using Wrong = std::vector<std::size_t>;

template <typename Array>
Array random_array(std::uint64_t seed) {
  Array array;
  std::ranges::copy(random_bytes(array.size(), seed), array.begin());
  return array;
}

unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

// Messages between bytes of others, with what they are before and after.
class Messages {
 public:
  // Sealed by libsodium, `gap` bytes behind the last one.
  void add(std::size_t bytes, std::size_t gap) {
    const std::uint64_t seed = places_.size() + 1'000 * bytes;
    const Bytes between = random_bytes(gap, seed);
    sealed_.insert(sealed_.end(), between.begin(), between.end());
    opened_.insert(opened_.end(), between.begin(), between.end());
    Bytes plain = random_bytes(bytes, seed + 1);
    // libsodium wants an address even of nothing.
    plain.reserve(1);
    sealed_.reserve(sealed_.size() + bytes + 1);
    opened_.insert(opened_.end(), plain.begin(), plain.end());
    places_.push_back({sealed_.size(), bytes});
    sealed_.resize(sealed_.size() + bytes);
    SealedMessage message{{}, random_array<std::array<std::byte, 24>>(seed + 2), {}};
    crypto_secretbox_detached(raw(sealed_.data() + places_.back().begin), raw(message.mac.data()), raw(plain.data()),
                              bytes, raw(message.nonce.data()), raw(key.data()));
    messages.push_back(message);
  }
  // On the GPU, and back.
  Wrong open() {
    content = sealed_;
    // Bytes after the last message, which must not change.
    content.resize(content.size() + 64, std::byte{0x77});
    const DeviceMemory memory = on_device(content);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      messages[i].data = memory.buffer().sub(places_[i].begin, places_[i].bytes);
    }
    const Wrong wrong = open_on_device(key, messages);
    content = on_host(memory);
    return wrong;
  }
  // What is there when all are open but these.
  Bytes expected(const Wrong& closed = {}) const {
    Bytes bytes = opened_;
    for (const std::size_t i : closed) {
      std::copy_n(sealed_.begin() + static_cast<std::ptrdiff_t>(places_[i].begin), places_[i].bytes,
                  bytes.begin() + static_cast<std::ptrdiff_t>(places_[i].begin));
    }
    bytes.resize(bytes.size() + 64, std::byte{0x77});
    return bytes;
  }
  void damage(std::size_t i, std::size_t at) { sealed_[places_[i].begin + at] ^= std::byte{1}; }

  Key key = random_array<Key>(99);
  std::vector<SealedMessage> messages;
  Bytes content;

 private:
  struct Place {
    std::size_t begin, bytes;
  };
  Bytes sealed_, opened_;
  std::vector<Place> places_;
};

TEST(OpenOnDevice, NothingAtAll) { EXPECT_EQ(open_on_device(random_array<Key>(1), {}), Wrong{}); }

TEST(OpenOnDevice, SmallSizesAtAnyAddress) {
  Messages messages;
  for (std::size_t bytes = 0; bytes <= 300; ++bytes) messages.add(bytes, bytes % 5);
  EXPECT_EQ(messages.open(), Wrong{});
  EXPECT_EQ(messages.content, messages.expected());
}

TEST(OpenOnDevice, NeighboursThatShareWords) {
  Messages messages;
  for (std::size_t i = 0; i < 400; ++i) messages.add(i % 23, 0);
  EXPECT_EQ(messages.open(), Wrong{});
  EXPECT_EQ(messages.content, messages.expected());
}

TEST(OpenOnDevice, BordersOfTilesAndChunks) {
  // A tile has 2 KiB, of the MAC and of the key stream, a chunk 32 KiB. The first ones of the key stream have 32 bytes
  // less.
  constexpr int kTile = gpu::kSecretboxTileBytes, kChunk = gpu::kSecretboxChunkBytes;
  for (std::size_t begin = 0; begin < 17; begin = begin * 2 + 1) {
    Messages messages;
    for (const int border : {kTile, kTile - 32, 2 * kTile, kChunk, kChunk - 32, 2 * kChunk - 32, 33 * kChunk}) {
      if (border == 33 * kChunk && begin > 1) continue;
      for (const int more : {-33, -16, -1, 0, 1, 3, 16, 17}) {
        messages.add(static_cast<std::size_t>(border + more), begin);
      }
    }
    EXPECT_EQ(messages.open(), Wrong{});
    ASSERT_EQ(messages.content, messages.expected()) << begin;
  }
}

TEST(OpenOnDevice, MoreMessagesThanOneLaunchTakes) {
  Messages messages;
  for (std::size_t i = 0; i < 9'000; ++i) messages.add(i % 50, 0);
  const Wrong wrong = {0, 4'095, 4'096, 8'191, 8'192, 8'999};
  for (const std::size_t i : wrong) messages.messages[i].mac[15] ^= std::byte{1};
  EXPECT_EQ(messages.open(), wrong);
  EXPECT_EQ(messages.content, messages.expected(wrong));
}

TEST(OpenOnDevice, DamageInEachChunk) {
  Messages messages;
  Wrong wrong;
  constexpr std::size_t kChunks = 70;
  for (std::size_t i = 0; i <= kChunks; ++i) messages.add(kChunks * gpu::kSecretboxChunkBytes, i % 3);
  for (std::size_t i = 0; i < kChunks; ++i) {
    messages.damage(i, i * gpu::kSecretboxChunkBytes + 7'777);
    wrong.push_back(i);
  }
  EXPECT_EQ(messages.open(), wrong);
  EXPECT_EQ(messages.content, messages.expected(wrong));
}

TEST(OpenOnDevice, LargeMessagesAtAnyAddress) {
  Messages messages;
  for (const std::size_t gap : {0, 1, 2, 4, 7}) messages.add((2 << 20) + gap, gap);
  EXPECT_EQ(messages.open(), Wrong{});
  EXPECT_EQ(messages.content, messages.expected());
}

TEST(OpenOnDevice, AWrongMacInEachPlace) {
  Messages messages;
  for (int i = 0; i < 20; ++i) messages.add(100, 3);
  // The first 16 have one byte wrong each; of the rest, two have other messages' MACs.
  Wrong wrong;
  for (std::size_t i = 0; i < 16; ++i) {
    messages.messages[i].mac[i] ^= std::byte{0x80};
    wrong.push_back(i);
  }
  std::swap(messages.messages[17].mac, messages.messages[19].mac);
  wrong.insert(wrong.end(), {17, 19});
  EXPECT_EQ(messages.open(), wrong);
  EXPECT_EQ(messages.content, messages.expected(wrong));
}

TEST(OpenOnDevice, ADamagedByteInEachPlace) {
  constexpr std::size_t kBytes = 77;
  Messages messages;
  Wrong wrong;
  for (std::size_t i = 0; i < kBytes; ++i) {
    messages.add(kBytes, 1);
    wrong.push_back(i);
  }
  for (std::size_t i = 0; i < kBytes; ++i) messages.damage(i, i);
  EXPECT_EQ(messages.open(), wrong);
  EXPECT_EQ(messages.content, messages.expected(wrong));
}

TEST(OpenOnDevice, AWrongKeyOrNonceOpensNothing) {
  for (std::size_t byte = 0; byte < 32; ++byte) {
    Messages messages;
    messages.add(0, 0);
    messages.add(50, 3);
    if (byte < 24) {
      for (SealedMessage& message : messages.messages) message.nonce[byte] ^= std::byte{1};
    } else {
      messages.key[4 * (byte - 24) + 3] ^= std::byte{0x80};
    }
    EXPECT_EQ(messages.open(), (Wrong{0, 1}));
    EXPECT_EQ(messages.content, messages.expected({0, 1}));
  }
}

TEST(OpenOnDevice, MoreMessagesThanBlocksWithSomeWrong) {
  Messages messages;
  Wrong wrong;
  for (std::size_t i = 0; i < 1'000; ++i) messages.add(i % 70, i % 3);
  for (std::size_t i = 0; i < 1'000; i += 7) {
    messages.messages[i].mac[0] ^= std::byte{1};
    wrong.push_back(i);
  }
  EXPECT_EQ(messages.open(), wrong);
  EXPECT_EQ(messages.content, messages.expected(wrong));
}

TEST(OpenOnDevice, LeavesNoSecretInSharedMemory) {
  Bytes sealed = random_bytes(100, 1);
  gpu::SecretboxMessage message{reinterpret_cast<std::uintptr_t>(sealed.data()), sealed.size(), {}, {}, 0, 0};
  std::uint32_t result = gpu::kSecretboxOpened;
  gpu::SecretboxKeys keys{};
  gpu::Limbs share{};
  const auto shared = std::make_unique<gpu::SecretboxShared>();
  const gpu::HostBlock block(0, 1, gpu::kSecretboxThreads);
  const auto left = std::as_bytes(std::span(shared.get(), 1));
  std::memset(shared.get(), 0, sizeof *shared);
  gpu::secretbox_open_kernel(block, *shared, {nullptr, &message, 1, 1, &result, &keys, &share, gpu::kSalsa20Factor});
  EXPECT_NE(sealed, random_bytes(100, 1));
  EXPECT_TRUE(std::ranges::all_of(left, [](std::byte b) { return b == std::byte{0}; }));
}

}  // namespace
}  // namespace tzmark::test
