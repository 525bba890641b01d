// Tests of the hashes against known values, zlib, OpenSSL, and the definition of a CRC.
#include "bytes/digest.h"

#include <gtest/gtest.h>
#include <openssl/sha.h>
#include <zlib.h>

#include <random>
#include <vector>

#include "bytes/cursor.h"

namespace tzmark {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

std::uint32_t zlib_crc32(std::span<const std::byte> bytes) {
  return static_cast<std::uint32_t>(::crc32_z(0, raw(bytes), bytes.size()));
}

Sha256Digest openssl_sha256(std::span<const std::byte> bytes) {
  Sha256Digest digest;
  ::SHA256(raw(bytes), bytes.size(), reinterpret_cast<unsigned char*>(digest.data()));
  return digest;
}

// Polynomials over GF(2), reduced by that of CRC32, with the coefficient of x^0 in the highest bit.
std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (int bit = 31; bit >= 0; --bit) {
    if ((a >> bit & 1) != 0) product ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? 0xedb88320 : 0);
  }
  return product;
}

// The CRC32 of a followed by b_bytes of others, from the definition: a times x^(8 * b_bytes), plus b.
std::uint32_t combine_by_definition(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes) {
  std::uint32_t power = 0x80000000 >> 8;
  for (; b_bytes != 0; b_bytes >>= 1, power = multiply(power, power)) {
    if ((b_bytes & 1) != 0) a = multiply(a, power);
  }
  return a ^ b;
}

TEST(Crc32, KnownValues) {
  EXPECT_EQ(crc32(0, {}), 0U);
  EXPECT_EQ(crc32(0, as_bytes("123456789")), 0xcbf43926U);
  EXPECT_EQ(crc32(0, as_bytes("a")), 0xe8b7be43U);
  EXPECT_EQ(crc32(0, as_bytes("The quick brown fox jumps over the lazy dog")), 0x414fa339U);
  EXPECT_EQ(crc32(0, std::vector<std::byte>(32)), 0x190a55adU);
}

TEST(Crc32, AgreesWithZlibAtEveryLengthAndAlignment) {
  const auto bytes = random_bytes(1200, 1);
  for (std::size_t length = 0; length <= 1100; ++length) {
    const auto part = std::span(bytes).subspan(length % 64, length);
    ASSERT_EQ(crc32(0, part), zlib_crc32(part)) << length;
  }
  const auto large = random_bytes((1 << 20) + 13, 2);
  EXPECT_EQ(crc32(0, large), zlib_crc32(large));
}

TEST(Crc32, SeedContinues) {
  const auto bytes = random_bytes(3000, 3);
  std::mt19937_64 random(4);
  for (int round = 0; round < 200; ++round) {
    const std::size_t split = random() % (bytes.size() + 1);
    ASSERT_EQ(crc32(crc32(0, std::span(bytes).first(split)), std::span(bytes).subspan(split)), zlib_crc32(bytes));
  }
}

TEST(Crc32Combine, RandomSplits) {
  const auto bytes = random_bytes(50'000, 5);
  const std::uint32_t whole = zlib_crc32(bytes);
  std::mt19937_64 random(6);
  for (int round = 0; round < 200; ++round) {
    std::uint32_t combined = 0;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = std::min<std::size_t>(random() % 20'000, bytes.size() - at);
      combined = crc32_combine(combined, crc32(0, std::span(bytes).subspan(at, length)), length);
      at += length;
    }
    ASSERT_EQ(combined, whole);
  }
}

TEST(Crc32Combine, LengthsBeyondMemory) {
  std::mt19937_64 random(7);
  for (int bits = 0; bits < 60; ++bits) {
    const auto a = static_cast<std::uint32_t>(random());
    const auto b = static_cast<std::uint32_t>(random());
    const std::uint64_t length = (std::uint64_t{1} << bits) + random() % (std::uint64_t{1} << bits);
    ASSERT_EQ(crc32_combine(a, b, length), combine_by_definition(a, b, length)) << length;
  }
  EXPECT_EQ(crc32_combine(0x12345678, 0, 0), 0x12345678U);
}

TEST(Crc32Combine, DefinitionAgreesWithZlib) {
  const auto bytes = random_bytes(1000, 8);
  const auto a = std::span(bytes).first(300), b = std::span(bytes).subspan(300);
  EXPECT_EQ(combine_by_definition(zlib_crc32(a), zlib_crc32(b), b.size()), zlib_crc32(bytes));
  EXPECT_NE(combine_by_definition(zlib_crc32(a), zlib_crc32(b), b.size() - 1), zlib_crc32(bytes));
}

TEST(Sha256, KnownValues) {
  const auto hex = [](std::string_view text) { return to_hex(sha256(as_bytes(text))); };
  EXPECT_EQ(hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(hex(std::string(1'000'000, 'a')), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, AgreesWithOpensslAtEveryLength) {
  const auto bytes = random_bytes(300, 9);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const auto part = std::span(bytes).first(length);
    ASSERT_EQ(sha256(part), openssl_sha256(part)) << length;
  }
}

TEST(Sha256, PiecesGiveTheSameAsTheWhole) {
  const auto bytes = random_bytes(10'000, 10);
  std::mt19937_64 random(11);
  Sha256 hash;
  for (int round = 0; round < 100; ++round) {
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = std::min<std::size_t>(random() % 3000, bytes.size() - at);
      hash.update(std::span(bytes).subspan(at, length));
      at += length;
    }
    // finish starts a new message, so the same object serves every round.
    ASSERT_EQ(hash.finish(), openssl_sha256(bytes));
  }
}

TEST(Sha256, ResetForgets) {
  Sha256 hash;
  hash.update(as_bytes("something else"));
  hash.reset();
  hash.update(as_bytes("abc"));
  EXPECT_EQ(hash.finish(), sha256(as_bytes("abc")));
}

TEST(Sha256, MoveTakesTheMessageAlong) {
  Sha256 first;
  first.update(as_bytes("ab"));
  Sha256 second = std::move(first);
  second.update(as_bytes("c"));
  EXPECT_EQ(second.finish(), sha256(as_bytes("abc")));
}

TEST(Digests, DoNotDisturbEachOther) {
  // The CRC's vector instructions run between those of the SHA-256 here, as they do on a thread of the pipeline.
  const auto bytes = random_bytes(100'000, 12);
  Sha256 hash;
  std::uint32_t crc = 0;
  for (std::size_t at = 0; at < bytes.size(); at += 1000) {
    const auto part = std::span(bytes).subspan(at, 1000);
    hash.update(part);
    crc = crc32(crc, part);
  }
  EXPECT_EQ(hash.finish(), openssl_sha256(bytes));
  EXPECT_EQ(crc, zlib_crc32(bytes));
}

TEST(ToHex, TwoLowerCaseDigitsAByte) {
  EXPECT_EQ(to_hex({}), "");
  const std::array bytes = {std::byte{0x00}, std::byte{0x0f}, std::byte{0xa5}, std::byte{0xff}};
  EXPECT_EQ(to_hex(bytes), "000fa5ff");
}

// Bit by bit, as CRC-64/XZ is defined.
std::uint64_t crc64_by_definition(std::span<const std::byte> bytes) {
  std::uint64_t state = ~std::uint64_t{0};
  for (const std::byte b : bytes) {
    state ^= std::to_integer<std::uint64_t>(b);
    for (int bit = 0; bit < 8; ++bit) state = (state >> 1) ^ ((state & 1) != 0 ? 0xC96C5795D7870F42 : 0);
  }
  return ~state;
}

TEST(Crc64, HasTheKnownValues) {
  EXPECT_EQ(crc64(0, {}), 0U);
  EXPECT_EQ(crc64(0, as_bytes("123456789")), 0x995DC9BBDF1939FAU);
  EXPECT_EQ(crc64_by_definition(as_bytes("123456789")), 0x995DC9BBDF1939FAU);
}

TEST(Crc64, AgreesWithItsDefinitionAtEveryLength) {
  const auto bytes = random_bytes(600, 11);
  for (std::size_t length = 0; length <= bytes.size(); ++length) {
    const auto part = std::span(bytes).first(length);
    ASSERT_EQ(crc64(0, part), crc64_by_definition(part)) << length;
  }
}

TEST(Crc64, GoesOnWhereItWasAndCombinesAtEverySplit) {
  const auto bytes = random_bytes(300, 12);
  const std::uint64_t whole = crc64(0, bytes);
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    const auto a = std::span(bytes).first(split), b = std::span(bytes).subspan(split);
    ASSERT_EQ(crc64(crc64(0, a), b), whole) << split;
    ASSERT_EQ(crc64_combine(crc64(0, a), crc64(0, b), b.size()), whole) << split;
  }
  EXPECT_NE(crc64_combine(crc64(0, bytes), crc64(0, bytes), bytes.size() - 1),
            crc64_combine(crc64(0, bytes), crc64(0, bytes), bytes.size()));
}

TEST(Crc64, KnowsZerosWithoutReadingThem) {
  for (const std::size_t length : {0U, 1U, 7U, 4096U, 1'000'003U}) {
    EXPECT_EQ(crc64_of_zeros(length), crc64(0, std::vector<std::byte>(length))) << length;
  }
  // Beyond what fits into memory, by doubling.
  std::uint64_t doubled = crc64_of_zeros(1 << 20);
  for (int bits = 20; bits < 50; ++bits) doubled = crc64_combine(doubled, doubled, std::uint64_t{1} << bits);
  EXPECT_EQ(crc64_of_zeros(std::uint64_t{1} << 50), doubled);
}

}  // namespace
}  // namespace tzmark
