// Tests of crypt blocks.
#include "format/crypt_block.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/caught.h"
#include "testing/files/structures.h"

namespace tzmark {
namespace {

using test::append_key_derivation;
using test::append_parallel;
using test::append_sequential;
using test::block_of;
using test::Bytes;
using test::caught;
using test::copy;
using test::failure;

constexpr std::uint64_t kFileOffset = 500;
constexpr std::size_t kFirstChunk = 2;  // behind the chunk count
constexpr std::size_t kPayload = kFirstChunk + kChunkPrefixBytes;

CryptBlock decode(std::span<const std::byte> block, std::uint64_t data_length) {
  return decode_crypt_block(block, kFileOffset, data_length);
}

KeyDerivation some_derivation() {
  KeyDerivation derivation{3, 8192, {}};
  for (std::size_t i = 0; i < kSaltBytes; ++i) derivation.salt[i] = static_cast<std::byte>(0x40 + i);
  return derivation;
}

Bytes sequence(std::size_t count, int first) {
  Bytes bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(first + static_cast<int>(i)));
  return bytes;
}

const Bytes kNonce = sequence(kNonceBytes, 0x10);
const Bytes kMac = sequence(kMacBytes, 0x70);

Bytes one_parallel(std::uint64_t chunk_size, std::size_t macs, std::optional<std::uint64_t> mac_count = std::nullopt) {
  Bytes chunk;
  append_parallel(chunk, chunk_size, kNonce, sequence(macs * kMacBytes, 0), mac_count);
  return block_of(1, chunk);
}

Bytes derivation_and_parallel(const KeyDerivation& derivation, std::uint16_t method = 1, std::int32_t alg = 2,
                              std::size_t salt_bytes = kSaltBytes) {
  Bytes chunks;
  append_key_derivation(chunks, derivation, method, alg, salt_bytes);
  append_parallel(chunks, 1024, kNonce, kMac);
  return block_of(2, chunks);
}

TEST(MessageCount, RoundsUp) {
  EXPECT_EQ(message_count(0, 1024), 0U);
  EXPECT_EQ(message_count(1, 1024), 1U);
  EXPECT_EQ(message_count(1024, 1024), 1U);
  EXPECT_EQ(message_count(1025, 1024), 2U);
  EXPECT_EQ(message_count(~std::uint64_t{0}, 1024), std::uint64_t{1} << 54);
  EXPECT_EQ(message_count(~std::uint64_t{0}, ~std::uint64_t{0}), 1U);
}

TEST(CryptBlock, EmptyForTensorsWithoutData) {
  const CryptBlock block = decode(block_of(0), 0);
  EXPECT_FALSE(block.key_derivation);
  EXPECT_FALSE(block.cipher);
}

TEST(CryptBlock, Parallel) {
  const Bytes bytes = one_parallel(1024, 3);
  const CryptBlock block = decode(bytes, 2049);
  ASSERT_TRUE(block.cipher);
  EXPECT_FALSE(block.key_derivation);
  EXPECT_FALSE(block.cipher->sequential);
  EXPECT_EQ(block.cipher->message_bytes, 1024U);
  EXPECT_EQ(copy(block.cipher->nonce), kNonce);
  EXPECT_EQ(copy(block.cipher->macs), sequence(3 * kMacBytes, 0));
  EXPECT_EQ(block.cipher->macs.data(), bytes.data() + bytes.size() - 3 * kMacBytes);
}

TEST(CryptBlock, Sequential) {
  Bytes chunk;
  append_sequential(chunk, kNonce, kMac);
  const CryptBlock block = decode(block_of(1, chunk), 12345);
  ASSERT_TRUE(block.cipher);
  EXPECT_TRUE(block.cipher->sequential);
  EXPECT_EQ(block.cipher->message_bytes, 12345U);
  EXPECT_EQ(copy(block.cipher->nonce), kNonce);
  EXPECT_EQ(block.cipher->macs.size(), kMacBytes);
}

TEST(CryptBlock, KeyDerivationBeforeOrBehindTheCipher) {
  const KeyDerivation derivation = some_derivation();
  Bytes behind;
  append_parallel(behind, 1024, kNonce, kMac);
  append_key_derivation(behind, derivation);
  for (const Bytes& bytes : {derivation_and_parallel(derivation), block_of(2, behind)}) {
    const CryptBlock block = decode(bytes, 100);
    EXPECT_EQ(block.key_derivation, derivation);
    EXPECT_TRUE(block.cipher);
  }
}

TEST(CryptBlock, EncodesWhatItDecodes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    HeaderPlan plan;
    plan.has_crypt = true;
    plan.chunk_bytes = 1024 + 64 * (random() % 100);
    plan.has_key_derivation = random() % 2 == 0;
    const std::uint64_t data_length = random() % 4 == 0 ? 0 : random() % 100'000;
    KeyDerivation derivation{1 + random() / 2, 8192 + random() / 2, {}};
    for (std::byte& b : derivation.salt) b = static_cast<std::byte>(random());

    Bytes expected;
    ByteWriter writer(expected);
    Bytes chunks;
    if (data_length != 0) {
      if (plan.has_key_derivation) append_key_derivation(chunks, derivation);
      append_parallel(chunks, plan.chunk_bytes, Bytes(kNonceBytes),
                      Bytes(kMacBytes * ((data_length + plan.chunk_bytes - 1) / plan.chunk_bytes)));
    }
    const Bytes block = block_of(data_length == 0 ? 0 : plan.has_key_derivation ? 2 : 1, chunks);
    writer.integer(std::uint64_t{block.size()});
    writer.bytes(block);

    Bytes encoded = {std::byte{0xaa}};
    HeaderSlots slots;
    encode_crypt_block(data_length, plan, derivation, slots, encoded);
    ASSERT_EQ(copy(std::span(encoded).subspan(1)), expected);
    ASSERT_EQ(crypt_block_bytes(data_length, plan), expected.size());
    const CryptBlock decoded = decode(std::span(encoded).subspan(1 + 8), data_length);
    ASSERT_EQ(decoded.cipher.has_value(), data_length != 0);
    ASSERT_EQ(decoded.key_derivation.has_value(), data_length != 0 && plan.has_key_derivation);
    if (data_length == 0) continue;
    if (plan.has_key_derivation) {
      ASSERT_EQ(*decoded.key_derivation, derivation);
    }
    ASSERT_EQ(decoded.cipher->message_bytes, plan.chunk_bytes);
    ASSERT_EQ(decoded.cipher->macs.data(), encoded.data() + slots.macs_at);
    ASSERT_EQ(decoded.cipher->macs.size(), message_count(data_length, plan.chunk_bytes) * kMacBytes);
    // What is written to the slots comes out as nonce and MACs.
    std::ranges::copy(kNonce, encoded.begin() + static_cast<std::ptrdiff_t>(slots.nonce_at));
    ASSERT_EQ(copy(decode(std::span(encoded).subspan(1 + 8), data_length).cipher->nonce), kNonce);
  }
}

TEST(CryptBlock, ChunksFillTheBlock) {
  EXPECT_EQ(caught([] { decode({}, 0); }), failure(ErrorCode::kCryptChunks, kFileOffset));
  EXPECT_EQ(caught([] { decode(Bytes(1), 0); }), failure(ErrorCode::kCryptChunks, kFileOffset));
  EXPECT_EQ(caught([] { decode(Bytes(3), 0); }), failure(ErrorCode::kCryptChunks, kFileOffset + 2));
  Bytes bytes = one_parallel(1024, 1);
  const std::size_t end = bytes.size();
  bytes.push_back({});
  EXPECT_EQ(caught([&] { decode(bytes, 100); }), failure(ErrorCode::kCryptChunks, kFileOffset + end));
  // A chunk more than there are.
  bytes = one_parallel(1024, 1);
  store<std::uint16_t>(bytes, 0, 2);
  EXPECT_EQ(caught([&] { decode(bytes, 100); }), failure(ErrorCode::kCryptChunks, kFileOffset + end));
  store<std::uint16_t>(bytes, 0, 0xffff);
  EXPECT_EQ(caught([&] { decode(bytes, 100); }), failure(ErrorCode::kCryptChunks, kFileOffset + end));
}

TEST(CryptBlock, ChunkLengthsBeyondTheBlock) {
  for (const std::uint64_t excess : {std::uint64_t{1}, std::uint64_t{1} << 32, std::uint64_t{1} << 63}) {
    Bytes bytes = one_parallel(1024, 1);
    store(bytes, kFirstChunk, load<std::uint64_t>(bytes, kFirstChunk) + excess);
    EXPECT_EQ(caught([&] { decode(bytes, 100); }), failure(ErrorCode::kCryptChunks, kFileOffset + kFirstChunk + 8));
  }
  Bytes bytes = one_parallel(1024, 1);
  store(bytes, kFirstChunk, ~std::uint64_t{0});
  EXPECT_EQ(caught([&] { decode(bytes, 100); }), failure(ErrorCode::kCryptChunks, kFileOffset + kFirstChunk + 8));
}

TEST(CryptBlock, UnknownChunkTypes) {
  for (const int type : {0, 4, 256, 512, 65535}) {
    Bytes bytes = one_parallel(1024, 1);
    store(bytes, kFirstChunk + 8, static_cast<std::uint16_t>(type));
    EXPECT_EQ(caught([&] { decode(bytes, 100); }), failure(ErrorCode::kCryptChunkType, kFileOffset + kFirstChunk + 8));
  }
}

TEST(CryptBlock, OneChunkOfEachSort) {
  Bytes parallel, sequential, derivation;
  append_parallel(parallel, 1024, kNonce, kMac);
  append_sequential(sequential, kNonce, kMac);
  append_key_derivation(derivation, some_derivation());
  const auto both = [](const Bytes& a, const Bytes& b) {
    Bytes chunks = a;
    chunks.insert(chunks.end(), b.begin(), b.end());
    return block_of(2, chunks);
  };
  for (const Bytes& first : {parallel, sequential}) {
    for (const Bytes& second : {parallel, sequential}) {
      EXPECT_EQ(caught([&] { decode(both(first, second), 100); }),
                failure(ErrorCode::kCryptTwoCiphers, kFileOffset + kFirstChunk + first.size()));
    }
  }
  EXPECT_EQ(caught([&] { decode(both(derivation, derivation), 100); }),
            failure(ErrorCode::kCryptTwoKdfs, kFileOffset + kFirstChunk + derivation.size()));
}

TEST(CryptBlock, DataNeedsACipher) {
  EXPECT_EQ(caught([] { decode(block_of(0), 1); }), failure(ErrorCode::kCryptNoCipher, kFileOffset));
  Bytes derivation;
  append_key_derivation(derivation, some_derivation());
  EXPECT_EQ(caught([&] { decode(block_of(1, derivation), 1); }), failure(ErrorCode::kCryptNoCipher, kFileOffset));
}

TEST(CryptBlock, NoDataNoChunks) {
  EXPECT_EQ(caught([] { decode(one_parallel(1024, 0), 0); }), failure(ErrorCode::kCryptWithoutData, kFileOffset));
  Bytes derivation;
  append_key_derivation(derivation, some_derivation());
  EXPECT_EQ(caught([&] { decode(block_of(1, derivation), 0); }), failure(ErrorCode::kCryptWithoutData, kFileOffset));
}

TEST(CryptBlock, ChunkSize) {
  for (const std::uint64_t good : {1024, 1088, 2 << 20}) {
    EXPECT_EQ(decode(one_parallel(good, 1), 100).cipher->message_bytes, good);
  }
  const std::uint64_t largest = ~std::uint64_t{63};
  EXPECT_EQ(decode(one_parallel(largest, 1), 100).cipher->message_bytes, largest);
  for (const std::uint64_t bad : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{64}, std::uint64_t{960},
                                  std::uint64_t{1023}, std::uint64_t{1025}, std::uint64_t{1056}, ~std::uint64_t{0}}) {
    EXPECT_EQ(caught([&] { decode(one_parallel(bad, 1), 100); }),
              failure(ErrorCode::kCryptChunkSize, kFileOffset + kPayload))
        << bad;
  }
}

TEST(CryptBlock, MacCount) {
  constexpr std::size_t kMacCountAt = kPayload + 8 + kNonceBytes;
  for (const auto& [data_length, macs] : std::vector<std::pair<std::uint64_t, std::size_t>>{
           {1, 1}, {1024, 1}, {1025, 2}, {10 * 1024, 10}, {10 * 1024 + 1, 11}}) {
    EXPECT_EQ(decode(one_parallel(1024, macs), data_length).cipher->macs.size(), macs * kMacBytes);
    for (const std::size_t wrong : {macs - 1, macs + 1}) {
      EXPECT_EQ(caught([&] { decode(one_parallel(1024, wrong), data_length); }),
                failure(ErrorCode::kCryptMacCount, kFileOffset + kMacCountAt));
    }
  }
  // Times 16 this is 2^64 + 16, which would pass for the one MAC that is there.
  EXPECT_EQ(caught([] { decode(one_parallel(1024, 1, (std::uint64_t{1} << 60) + 1), 100); }),
            failure(ErrorCode::kCryptMacCount, kFileOffset + kMacCountAt));
  // The count is right for a huge tensor, but the MACs are not there.
  constexpr std::uint64_t kHuge = 0x7fffffffffffffff;
  EXPECT_EQ(caught([] { decode(one_parallel(1024, 1, message_count(kHuge, 1024)), kHuge); }),
            failure(ErrorCode::kCryptPayload, kFileOffset + kMacCountAt + 8));
}

TEST(CryptBlock, PayloadsAreExact) {
  Bytes parallel, sequential;
  append_parallel(parallel, 1024, kNonce, kMac);
  append_sequential(sequential, kNonce, kMac);
  for (const Bytes& chunk : {parallel, sequential}) {
    Bytes longer = chunk;
    longer.resize(chunk.size() + 3);
    store<std::uint64_t>(longer, 0, longer.size() - 8);
    EXPECT_EQ(caught([&] { decode(block_of(1, longer), 100); }),
              failure(ErrorCode::kCryptPayload, kFileOffset + kFirstChunk + chunk.size()));
    for (std::size_t length = 8; length < chunk.size(); ++length) {
      Bytes shorter(chunk.begin(), chunk.begin() + static_cast<std::ptrdiff_t>(length));
      store<std::uint64_t>(shorter, 0, length - 8);
      EXPECT_EQ(caught([&] { decode(block_of(1, shorter), 100); }).code, ErrorCode::kCryptPayload) << length;
    }
  }
}

TEST(CryptBlock, KeyDerivationRules) {
  const KeyDerivation good = some_derivation();
  for (const int method : {0, 2, 256, 65535}) {
    EXPECT_EQ(caught([&] { decode(derivation_and_parallel(good, static_cast<std::uint16_t>(method)), 100); }),
              failure(ErrorCode::kCryptKdfMethod, kFileOffset + kPayload));
  }
  for (const std::int32_t alg : {0, 1, 3, -2, -1, 0x02000000}) {
    EXPECT_EQ(caught([&] { decode(derivation_and_parallel(good, 1, alg), 100); }),
              failure(ErrorCode::kCryptKdfAlg, kFileOffset + kPayload + 18));
  }
  for (const std::size_t salt_bytes : {0, 1, 15, 17, 32, 272, 65535}) {
    EXPECT_EQ(caught([&] { decode(derivation_and_parallel(good, 1, 2, salt_bytes), 100); }),
              failure(ErrorCode::kCryptKdfSalt, kFileOffset + kPayload + 22))
        << salt_bytes;
  }
}

TEST(CryptBlock, KeyDerivationMinimum) {
  const auto derivation = [](std::uint64_t opslimit, std::uint64_t memlimit) {
    return derivation_and_parallel({opslimit, memlimit, {}}, 1, 2);
  };
  EXPECT_EQ(decode(derivation(1, 8192), 100).key_derivation, (KeyDerivation{1, 8192, {}}));
  EXPECT_EQ(caught([&] { decode(derivation(0, 8192), 100); }),
            failure(ErrorCode::kCryptKdfMinimum, kFileOffset + kPayload + 2));
  EXPECT_EQ(caught([&] { decode(derivation(1, 8191), 100); }),
            failure(ErrorCode::kCryptKdfMinimum, kFileOffset + kPayload + 2));
  // What is too much is for those to say who derive a key.
  EXPECT_TRUE(decode(derivation(~std::uint64_t{0}, ~std::uint64_t{0}), 100).key_derivation);
}

TEST(CryptBlock, KeyDerivationIsNotCutShort) {
  Bytes derivation;
  append_key_derivation(derivation, some_derivation());
  for (std::size_t length = 8; length < derivation.size(); ++length) {
    Bytes chunk(derivation.begin(), derivation.begin() + static_cast<std::ptrdiff_t>(length));
    store<std::uint64_t>(chunk, 0, length - 8);
    append_parallel(chunk, 1024, kNonce, kMac);
    EXPECT_EQ(caught([&] { decode(block_of(2, chunk), 100); }).code, ErrorCode::kCryptPayload) << length;
  }
}

TEST(CryptBlock, EveryTruncation) {
  const auto decode_100 = [](auto beginning) { decode(beginning, 100); };
  test::expect_every_truncation_throws(derivation_and_parallel(some_derivation()), decode_100);
  test::expect_every_truncation_throws(one_parallel(1024, 1), decode_100);
  test::expect_every_truncation_throws(block_of(0), [](auto beginning) { decode(beginning, 0); });
}

TEST(CryptBlock, DamageIsHarmless) {
  test::expect_damage_is_harmless(derivation_and_parallel(some_derivation()), 2,
                                  [](auto bytes) { decode(bytes, 100); });
}

}  // namespace
}  // namespace tzmark
