// For tests: wire structures put together field by field, apart from the encoders under test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "bytes/cursor.h"
#include "tzmark/error.h"
#include "tzmark/format.h"

namespace tzmark::test {

using Bytes = std::vector<std::byte>;

inline Bytes copy(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

inline std::string random_text(std::mt19937_64& random, std::size_t length) {
  std::string text(length, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

inline Bytes random_bytes(std::mt19937_64& random, std::size_t length) {
  Bytes bytes(length);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

// What TensorFields show, with an owner.
struct RawTensor {
  std::uint8_t kind = 0;
  std::string name = "w";
  std::string dtype = "<f4";
  std::vector<std::uint32_t> shape = {2};
  std::uint64_t data_length = 8;

  TensorFields fields() const {
    TensorFields fields;
    fields.kind = static_cast<Kind>(kind);
    fields.name = name;
    fields.dtype = dtype;
    fields.dimension_count = static_cast<std::uint8_t>(shape.size());
    std::ranges::copy(shape, fields.dimensions.begin());
    fields.data_length = data_length;
    return fields;
  }

  // name_length, name and so on to the shape, in the order of the index.
  void append_name(ByteWriter& writer) const {
    writer.integer(static_cast<std::uint16_t>(name.size()));
    writer.bytes(as_bytes(name));
  }
  void append_dtype_and_shape(ByteWriter& writer) const {
    writer.integer(static_cast<std::uint8_t>(dtype.size()));
    writer.bytes(as_bytes(dtype));
    writer.integer(static_cast<std::uint8_t>(shape.size()));
    for (const std::uint32_t dimension : shape) writer.integer(dimension);
  }
};

// Any content that the fields can hold, sense or not: decoders of structures judge nothing but the form.
inline RawTensor random_tensor(std::mt19937_64& random) {
  RawTensor tensor;
  tensor.kind = static_cast<std::uint8_t>(random() % 3);
  tensor.name = random_text(random, random() % 20 == 0 ? 65535 : random() % 100);
  tensor.dtype = random_text(random, random() % 20 == 0 ? 255 : random() % 10);
  tensor.shape.resize(random() % 20 == 0 ? 255 : random() % 6);
  for (std::uint32_t& dimension : tensor.shape) dimension = static_cast<std::uint32_t>(random());
  tensor.data_length = random() >> (1 + random() % 63);
  return tensor;
}

inline void expect_same_fields(const TensorFields& actual, const RawTensor& expected) {
  EXPECT_EQ(static_cast<std::uint8_t>(actual.kind), expected.kind);
  EXPECT_EQ(actual.name, expected.name);
  EXPECT_EQ(actual.dtype, expected.dtype);
  EXPECT_TRUE(std::ranges::equal(actual.shape(), expected.shape));
  EXPECT_EQ(actual.data_length, expected.data_length);
}

// Chunks of a crypt block.
inline void append_key_derivation(Bytes& block, const KeyDerivation& derivation, std::uint16_t method = 1,
                                  std::int32_t alg = 2, std::size_t salt_bytes = kSaltBytes) {
  ByteWriter writer(block);
  writer.integer(std::uint64_t{2 + 2 + 8 + 8 + 4 + 2 + salt_bytes});
  writer.integer(std::uint16_t{1});
  writer.integer(method);
  writer.integer(derivation.opslimit);
  writer.integer(derivation.memlimit);
  writer.integer(alg);
  writer.integer(static_cast<std::uint16_t>(salt_bytes));
  for (std::size_t i = 0; i < salt_bytes; ++i)
    writer.integer(static_cast<std::uint8_t>(derivation.salt[i % kSaltBytes]));
}

inline void append_parallel(Bytes& block, std::uint64_t chunk_size, std::span<const std::byte> nonce,
                            std::span<const std::byte> macs, std::optional<std::uint64_t> mac_count = std::nullopt) {
  ByteWriter writer(block);
  writer.integer(std::uint64_t{2 + 8 + kNonceBytes + 8 + macs.size()});
  writer.integer(std::uint16_t{2});
  writer.integer(chunk_size);
  writer.bytes(nonce);
  writer.integer(mac_count.value_or(macs.size() / kMacBytes));
  writer.bytes(macs);
}

inline void append_sequential(Bytes& block, std::span<const std::byte> nonce, std::span<const std::byte> mac) {
  ByteWriter writer(block);
  writer.integer(std::uint64_t{2 + kNonceBytes + mac.size()});
  writer.integer(std::uint16_t{3});
  writer.bytes(nonce);
  writer.bytes(mac);
}

inline Bytes block_of(std::uint16_t chunk_count, std::span<const std::byte> chunks = {}) {
  Bytes block;
  ByteWriter writer(block);
  writer.integer(chunk_count);
  writer.bytes(chunks);
  return block;
}

// Hands every beginning of bytes to decode, which has to throw an Error. Each lies in memory of its own that ends where
// it ends, so that a sanitizer sees a read past it.
template <typename Decode>
void expect_every_truncation_throws(std::span<const std::byte> bytes, Decode&& decode) {
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const Bytes beginning(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(decode(std::span<const std::byte>(beginning)), Error) << "cut to " << length << " bytes";
  }
}

// Hands damaged copies of bytes to decode, which either accepts them or throws an Error.
template <typename Decode>
void expect_damage_is_harmless(std::span<const std::byte> bytes, std::uint64_t seed, Decode&& decode) {
  std::mt19937_64 random(seed);
  std::size_t refused = 0;
  for (int round = 0; round < 2000; ++round) {
    Bytes damaged(bytes.begin(), bytes.end());
    for (std::uint64_t change = 0; change <= random() % 3; ++change) {
      damaged[random() % damaged.size()] = static_cast<std::byte>(random() % 2 == 0 ? random() : 0xff);
    }
    try {
      decode(std::span<const std::byte>(damaged));
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 0U);
}

}  // namespace tzmark::test
