// Tests of tensor headers.
#include <gtest/gtest.h>

#include <random>

#include "format/crypt_block.h"
#include "testing/caught.h"
#include "testing/files/structures.h"
#include "tzmark/format.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::copy;
using test::failure;
using test::RawTensor;

constexpr std::uint64_t kHeaderOffset = 1000;

struct RawHash {
  std::uint8_t type;
  Bytes value;
};

Bytes hash_list(const std::vector<RawHash>& hashes) {
  Bytes list;
  ByteWriter writer(list);
  writer.integer(static_cast<std::uint8_t>(hashes.size()));
  for (const RawHash& hash : hashes) {
    writer.integer(hash.type);
    writer.integer(static_cast<std::uint8_t>(hash.value.size()));
    writer.bytes(hash.value);
  }
  return list;
}

// A header as its parts; the places of fields follow from them.
struct RawHeader {
  RawTensor tensor = {0, "name", "<f4", {2, 3}, 24};
  std::uint16_t module_index = 7;
  Bytes hashes = hash_list({{0, Bytes(4, std::byte{0xc4})}, {1, Bytes(32, std::byte{0x5a})}});
  std::optional<Bytes> crypt;  // what crypt_length counts
  std::int64_t data_length = 24;
  Bytes extra;  // between the last two fields, where nothing belongs

  std::size_t dtype_at() const { return 13 + tensor.name.size() + 1; }
  std::size_t shape_at() const { return dtype_at() + tensor.dtype.size(); }
  std::size_t hashes_at() const { return shape_at() + 1 + tensor.shape.size() * 4 + 2; }
  std::size_t crypt_at() const { return hashes_at() + hashes.size(); }
  std::size_t crypt_end() const { return crypt_at() + (crypt ? 8 + crypt->size() : 0); }

  Bytes bytes() const {
    Bytes result;
    ByteWriter writer(result);
    writer.integer(std::uint64_t{crypt_end() + extra.size() + 8});
    writer.integer(module_index);
    writer.integer(tensor.kind);
    tensor.append_name(writer);
    tensor.append_dtype_and_shape(writer);
    writer.integer(static_cast<std::uint16_t>(hashes.size()));
    writer.bytes(hashes);
    if (crypt) {
      writer.integer(std::uint64_t{crypt->size()});
      writer.bytes(*crypt);
    }
    writer.bytes(extra);
    writer.integer(data_length);
    return result;
  }
};

RawHeader encrypted_header() {
  RawHeader header;
  Bytes chunks;
  test::append_key_derivation(chunks, {1, 8192, {}});
  test::append_parallel(chunks, 1024, Bytes(kNonceBytes, std::byte{1}), Bytes(kMacBytes, std::byte{2}));
  header.crypt = test::block_of(2, chunks);
  return header;
}

TensorHeader decode(std::span<const std::byte> bytes, bool has_crypt = false) {
  TensorHeader header;
  decode_tensor_header(bytes, kHeaderOffset, {has_crypt, false}, header);
  return header;
}

// The whole, not the temporary, because views point into it.
void expect_error(const RawHeader& header, ErrorCode code, std::size_t at) {
  const Bytes bytes = header.bytes();
  EXPECT_EQ(caught([&] { decode(bytes, header.crypt.has_value()); }), failure(code, kHeaderOffset + at));
}

TEST(TensorHeader, DecodesItsFields) {
  RawHeader raw;
  raw.tensor.kind = 2;
  const Bytes bytes = raw.bytes();
  const TensorHeader header = decode(bytes);
  test::expect_same_fields(header, raw.tensor);
  EXPECT_EQ(header.header_length, bytes.size());
  EXPECT_EQ(header.module_index, 7);
  EXPECT_EQ(header.hashes.size(), 2U);
  EXPECT_EQ(header.crc32(bytes), 0xc4c4c4c4U);
  EXPECT_EQ(copy(*header.sha256(bytes)), Bytes(32, std::byte{0x5a}));
  EXPECT_FALSE(header.crypt.cipher);
  EXPECT_EQ(header.crypt_begin, header.crypt_end);
}

TEST(TensorHeader, DecodesTheCryptBlock) {
  const RawHeader raw = encrypted_header();
  const Bytes bytes = raw.bytes();
  const TensorHeader header = decode(bytes, true);
  test::expect_same_fields(header, raw.tensor);
  EXPECT_EQ(header.crypt.key_derivation, (KeyDerivation{1, 8192, {}}));
  ASSERT_TRUE(header.crypt.cipher);
  EXPECT_EQ(header.crypt.cipher->macs.size(), kMacBytes);
  EXPECT_EQ(header.crypt_begin, raw.crypt_at());
  EXPECT_EQ(header.crypt_end, raw.crypt_end());
  EXPECT_EQ(header.crc32(bytes), 0xc4c4c4c4U);
}

TEST(TensorHeader, HashesInAnyOrderAndNumber) {
  RawHeader raw;
  raw.hashes = hash_list({});
  Bytes bytes = raw.bytes();
  TensorHeader header = decode(bytes);
  EXPECT_EQ(header.crc32(bytes), std::nullopt);
  EXPECT_FALSE(header.sha256(bytes));

  const Bytes first(32, std::byte{1}), second(32, std::byte{2});
  raw.hashes = hash_list({{1, first}, {1, second}, {0, Bytes(4, std::byte{3})}});
  bytes = raw.bytes();
  // The same object again: nothing of the header before must show.
  decode_tensor_header(bytes, kHeaderOffset, {}, header);
  EXPECT_EQ(header.hashes.size(), 3U);
  EXPECT_EQ(header.crc32(bytes), 0x03030303U);
  EXPECT_EQ(copy(*header.sha256(bytes)), first);

  raw.hashes = hash_list(std::vector<RawHash>(255, {1, second}));
  bytes = raw.bytes();
  decode_tensor_header(bytes, kHeaderOffset, {}, header);
  EXPECT_EQ(header.hashes.size(), 255U);
  EXPECT_EQ(header.crc32(bytes), std::nullopt);
}

TEST(TensorHeader, RoundTripsOfRandomFields) {
  std::mt19937_64 random(1);
  TensorHeader decoded;
  for (int round = 0; round < 300; ++round) {
    RawHeader raw;
    raw.tensor = test::random_tensor(random);
    raw.tensor.data_length %= 100'000;
    raw.data_length = static_cast<std::int64_t>(raw.tensor.data_length);
    raw.module_index = static_cast<std::uint16_t>(random());
    HeaderPlan plan;
    plan.crc32 = random() % 2 == 0;
    plan.sha256 = random() % 2 == 0;
    plan.has_crypt = random() % 2 == 0;
    plan.has_key_derivation = plan.has_crypt && random() % 2 == 0;
    plan.chunk_bytes = 1024 + 64 * (random() % 100);
    const KeyDerivation derivation{1 + random() % 4, 8192 + random() % 1'000'000, {}};

    const Bytes crc32 = test::random_bytes(random, 4), sha256 = test::random_bytes(random, 32);
    const Bytes nonce = test::random_bytes(random, kNonceBytes);
    const Bytes macs =
        test::random_bytes(random, kMacBytes * ((raw.tensor.data_length + plan.chunk_bytes - 1) / plan.chunk_bytes));
    std::vector<RawHash> hashes;
    if (plan.crc32) hashes.push_back({0, crc32});
    if (plan.sha256) hashes.push_back({1, sha256});
    raw.hashes = hash_list(hashes);
    const bool has_data = raw.data_length != 0;
    if (plan.has_crypt) {
      Bytes chunks;
      if (has_data && plan.has_key_derivation) test::append_key_derivation(chunks, derivation);
      if (has_data) test::append_parallel(chunks, plan.chunk_bytes, nonce, macs);
      raw.crypt = test::block_of(!has_data ? 0 : plan.has_key_derivation ? 2 : 1, chunks);
    }

    // Behind something else, as in a buffer of several headers: slots count from the header's own start.
    const std::size_t before = random() % 50;
    Bytes out(before, std::byte{0xaa});
    const auto key_derivation = plan.has_key_derivation ? std::optional(derivation) : std::nullopt;
    const HeaderSlots slots = encode_tensor_header(raw.tensor.fields(), raw.module_index, plan, key_derivation, out);
    Bytes encoded(out.begin() + static_cast<std::ptrdiff_t>(before), out.end());
    ASSERT_EQ(tensor_header_bytes(raw.tensor.fields(), plan), encoded.size());
    ASSERT_LE(encoded.size(), tensor_header_bytes_max(raw.tensor.fields(), plan.has_crypt));

    const auto fill = [&](std::size_t at, const Bytes& value) {
      ASSERT_LE(at + value.size(), encoded.size());
      for (std::size_t i = 0; i < value.size(); ++i) ASSERT_EQ(encoded[at + i], std::byte{0}) << "a slot is zeros";
      std::ranges::copy(value, encoded.begin() + static_cast<std::ptrdiff_t>(at));
    };
    if (plan.crc32) fill(slots.crc32_at, crc32);
    if (plan.sha256) fill(slots.sha256_at, sha256);
    if (plan.has_crypt && has_data) {
      fill(slots.nonce_at, nonce);
      fill(slots.macs_at, macs);
    }
    ASSERT_EQ(encoded, raw.bytes());

    decode_tensor_header(encoded, kHeaderOffset, {plan.has_crypt, false}, decoded);
    test::expect_same_fields(decoded, raw.tensor);
    EXPECT_EQ(decoded.module_index, raw.module_index);
    ASSERT_EQ(decoded.crc32(encoded).has_value(), plan.crc32);
    ASSERT_EQ(decoded.sha256(encoded).has_value(), plan.sha256);
    if (plan.crc32) {
      EXPECT_EQ(*decoded.crc32(encoded), load<std::uint32_t>(crc32, 0));
    }
    if (plan.sha256) {
      EXPECT_EQ(copy(*decoded.sha256(encoded)), sha256);
    }
    ASSERT_EQ(decoded.crypt.cipher.has_value(), plan.has_crypt && has_data);
    if (decoded.crypt.cipher) {
      EXPECT_EQ(copy(decoded.crypt.cipher->macs), macs);
    }
    EXPECT_EQ(decoded.crypt_begin, raw.crypt_at());
    EXPECT_EQ(decoded.crypt_end, raw.crypt_end());
  }
}

TEST(TensorHeader, TerminatorInstead) {
  EXPECT_EQ(caught([] { decode(Bytes(8)); }), failure(ErrorCode::kRecordTerminator, kHeaderOffset));
  EXPECT_EQ(caught([] { decode(Bytes(100)); }), failure(ErrorCode::kRecordTerminator, kHeaderOffset));
}

TEST(TensorHeader, LengthOtherThanTheRoomForIt) {
  const Bytes whole = RawHeader().bytes();
  for (const std::uint64_t length : {std::uint64_t{1}, std::uint64_t{8}, std::uint64_t{whole.size() - 1},
                                     std::uint64_t{whole.size() + 1}, ~std::uint64_t{0}, std::uint64_t{1} << 63}) {
    Bytes bytes = whole;
    store(bytes, 0, length);
    EXPECT_EQ(caught([&] { decode(bytes); }), failure(ErrorCode::kRecordTruncated, kHeaderOffset)) << length;
  }
}

TEST(TensorHeader, LengthsThatRunPastTheEnd) {
  const RawHeader raw;
  const auto with = [&](std::size_t at, std::initializer_list<int> values) {
    Bytes bytes = raw.bytes();
    for (const int value : values) bytes[at++] = static_cast<std::byte>(value);
    return bytes;
  };
  const auto past_end = [](std::size_t at) { return failure(ErrorCode::kRecordFieldPastEnd, kHeaderOffset + at); };
  EXPECT_EQ(caught([&] { decode(with(11, {0xff, 0xff})); }), past_end(13));
  EXPECT_EQ(caught([&] { decode(with(raw.dtype_at() - 1, {0xff})); }), past_end(raw.dtype_at()));
  EXPECT_EQ(caught([&] { decode(with(raw.shape_at(), {0xff})); }), past_end(raw.shape_at() + 1));
  EXPECT_EQ(caught([&] {
              decode(with(raw.hashes_at() - 2, {0xff, 0xff}));
            }),
            failure(ErrorCode::kHashPastEnd, kHeaderOffset + raw.hashes_at()));
}

TEST(TensorHeader, UnknownKinds) {
  for (const int kind : {3, 4, 128, 255}) {
    RawHeader raw;
    raw.tensor.kind = static_cast<std::uint8_t>(kind);
    expect_error(raw, ErrorCode::kIndexKind, 10);
  }
}

TEST(TensorHeader, HashListsThatAreNotExact) {
  RawHeader raw;
  raw.hashes = {};
  expect_error(raw, ErrorCode::kHashPastEnd, raw.hashes_at());
  // One more than there are.
  raw.hashes = hash_list({{0, Bytes(4)}});
  raw.hashes[0] = std::byte{2};
  expect_error(raw, ErrorCode::kHashPastEnd, raw.hashes_at() + raw.hashes.size());
  // One fewer.
  raw.hashes[0] = std::byte{0};
  expect_error(raw, ErrorCode::kHashPastEnd, raw.hashes_at() + 1);
  // Cut in its type, in its size, in its value.
  raw.hashes = hash_list({{1, Bytes(32)}});
  for (const std::size_t length : {2, 3, 34}) {
    raw.hashes.resize(length);
    store<std::uint8_t>(raw.hashes, 0, 1);
    if (length > 2) store<std::uint8_t>(raw.hashes, 2, 32);
    expect_error(raw, ErrorCode::kHashPastEnd, raw.hashes_at() + (length == 2 ? 2 : 3));
  }
  raw.hashes = hash_list({{0, Bytes(4)}});
  store<std::uint8_t>(raw.hashes, 2, 255);
  expect_error(raw, ErrorCode::kHashPastEnd, raw.hashes_at() + 3);
}

TEST(TensorHeader, UnknownHashTypes) {
  for (const int type : {2, 3, 255}) {
    RawHeader raw;
    raw.hashes = hash_list({{0, Bytes(4)}, {static_cast<std::uint8_t>(type), Bytes(32)}});
    expect_error(raw, ErrorCode::kHashType, raw.hashes_at() + 1 + 6);
  }
}

TEST(TensorHeader, HashSizes) {
  for (const std::uint8_t type : {std::uint8_t{0}, std::uint8_t{1}}) {
    for (std::size_t size = 0; size < 256; ++size) {
      RawHeader raw;
      raw.hashes = hash_list({{type, Bytes(size)}});
      if (size == (type == 0 ? 4U : 32U)) {
        EXPECT_EQ(decode(raw.bytes()).hashes.size(), 1U);
      } else {
        expect_error(raw, ErrorCode::kHashSize, raw.hashes_at() + 2);
      }
    }
  }
}

TEST(TensorHeader, BytesThatBelongToNoField) {
  for (const std::size_t count : {1, 7, 8, 100}) {
    RawHeader plain, encrypted = encrypted_header();
    plain.extra = encrypted.extra = Bytes(count);
    expect_error(plain, ErrorCode::kRecordExtraBytes, plain.crypt_end());
    expect_error(encrypted, ErrorCode::kRecordExtraBytes, encrypted.crypt_end());
  }
}

TEST(TensorHeader, NegativeDataLength) {
  for (const std::int64_t length : {std::int64_t{-1}, std::int64_t{-24}, std::numeric_limits<std::int64_t>::min()}) {
    RawHeader plain, encrypted = encrypted_header();
    plain.data_length = encrypted.data_length = length;
    expect_error(plain, ErrorCode::kRecordNegativeLength, plain.crypt_end());
    expect_error(encrypted, ErrorCode::kRecordNegativeLength, encrypted.crypt_end());
  }
  RawHeader raw;
  raw.data_length = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(decode(raw.bytes()).data_length, 0x7fffffffffffffffU);
}

TEST(TensorHeader, CryptBlockOfAnEncryptedFileIsThere) {
  const RawHeader raw;
  const Bytes bytes = raw.bytes();
  EXPECT_EQ(caught([&] { decode(bytes, true); }), failure(ErrorCode::kCryptPastEnd, kHeaderOffset + raw.crypt_at()));
}

TEST(TensorHeader, CryptBlockOfAPlainFileIsTooMuch) {
  const RawHeader raw = encrypted_header();
  const Bytes bytes = raw.bytes();
  EXPECT_EQ(caught([&] { decode(bytes, false); }),
            failure(ErrorCode::kRecordExtraBytes, kHeaderOffset + raw.crypt_at()));
}

TEST(TensorHeader, CryptLengthBeyondTheHeader) {
  const RawHeader raw = encrypted_header();
  for (const std::uint64_t length :
       {std::uint64_t{raw.crypt->size() + 9}, std::uint64_t{1} << 63, ~std::uint64_t{0}, ~std::uint64_t{7}}) {
    Bytes bytes = raw.bytes();
    store(bytes, raw.crypt_at(), length);
    EXPECT_EQ(caught([&] { decode(bytes, true); }), failure(ErrorCode::kCryptPastEnd, kHeaderOffset + raw.crypt_at()))
        << length;
  }
  // A block that ends inside the header leaves no room for data_length.
  for (const std::size_t more : {1, 8}) {
    Bytes bytes = raw.bytes();
    store<std::uint64_t>(bytes, raw.crypt_at(), raw.crypt->size() + more);
    EXPECT_EQ(caught([&] { decode(bytes, true); }),
              failure(ErrorCode::kRecordFieldPastEnd, kHeaderOffset + raw.crypt_end() + more))
        << more;
  }
  // Too short a block leaves bytes that belong to no field.
  Bytes bytes = raw.bytes();
  store<std::uint64_t>(bytes, raw.crypt_at(), raw.crypt->size() - 1);
  EXPECT_EQ(caught([&] { decode(bytes, true); }),
            failure(ErrorCode::kRecordExtraBytes, kHeaderOffset + raw.crypt_end() - 1));
}

TEST(TensorHeader, ErrorsOfTheCryptBlockHaveTheirPlaceInTheFile) {
  RawHeader raw = encrypted_header();
  store<std::uint16_t>(*raw.crypt, 2 + 8, 9);
  expect_error(raw, ErrorCode::kCryptChunkType, raw.crypt_at() + 8 + 2 + 8);
  raw = encrypted_header();
  raw.data_length = 1025;
  const std::size_t mac_count_at = raw.crypt_end() - kMacBytes - 8;
  expect_error(raw, ErrorCode::kCryptMacCount, mac_count_at);
  raw = encrypted_header();
  raw.data_length = 0;
  expect_error(raw, ErrorCode::kCryptWithoutData, raw.crypt_at() + 8);
}

TEST(TensorHeader, EveryTruncation) {
  for (const RawHeader& raw : {RawHeader(), encrypted_header()}) {
    const bool has_crypt = raw.crypt.has_value();
    const Bytes bytes = raw.bytes();
    test::expect_every_truncation_throws(bytes, [&](auto beginning) { decode(beginning, has_crypt); });
    // With a header_length that fits, so that it is not that alone which gives it away.
    test::expect_every_truncation_throws(bytes, [&](auto beginning) {
      Bytes mended(beginning.begin(), beginning.end());
      if (mended.size() >= 8) store<std::uint64_t>(mended, 0, mended.size());
      decode(mended, has_crypt);
    });
  }
}

TEST(TensorHeader, DamageIsHarmless) {
  for (const RawHeader& raw : {RawHeader(), encrypted_header()}) {
    const bool has_crypt = raw.crypt.has_value();
    Bytes bytes = raw.bytes();
    // The length of the header is right in each, so that the damage gets further than there.
    test::expect_damage_is_harmless(std::span(bytes).subspan(8), 3, [&](auto damaged) {
      std::ranges::copy(damaged, bytes.begin() + 8);
      const Bytes own(bytes.begin(), bytes.end());
      decode(own, has_crypt);
    });
  }
}

TEST(HeaderAgrees, WithAnEntryOfTheSameFields) {
  const RawHeader raw;
  const Bytes bytes = raw.bytes();
  check_header_agrees(raw.tensor.fields(), decode(bytes), kHeaderOffset);
  RawHeader scalar;
  scalar.tensor = {1, "", "|u1", {}, 1};
  scalar.data_length = 1;
  const Bytes scalar_bytes = scalar.bytes();
  check_header_agrees(scalar.tensor.fields(), decode(scalar_bytes), kHeaderOffset);
}

TEST(HeaderAgrees, NotWithAnother) {
  const RawHeader raw;
  const Bytes bytes = raw.bytes();
  const TensorHeader header = decode(bytes);
  const auto expect = [&](const RawTensor& entry, ErrorCode code, std::size_t at) {
    EXPECT_EQ(caught([&] { check_header_agrees(entry.fields(), header, kHeaderOffset); }),
              failure(code, kHeaderOffset + at));
  };
  const auto with = [&](auto&& change) {
    RawTensor entry = raw.tensor;
    change(entry);
    return entry;
  };
  expect(with([](RawTensor& t) { t.name = "Name"; }), ErrorCode::kRecordName, 13);
  expect(with([](RawTensor& t) { t.name = "nam"; }), ErrorCode::kRecordName, 13);
  expect(with([](RawTensor& t) { t.kind = 1; }), ErrorCode::kRecordKind, 10);
  expect(with([](RawTensor& t) { t.dtype = ">f4"; }), ErrorCode::kRecordDtype, raw.dtype_at());
  expect(with([](RawTensor& t) { t.shape = {3, 2}; }), ErrorCode::kRecordShape, raw.shape_at());
  expect(with([](RawTensor& t) { t.shape = {2, 3, 1}; }), ErrorCode::kRecordShape, raw.shape_at());
  expect(with([](RawTensor& t) { t.shape = {2}; }), ErrorCode::kRecordShape, raw.shape_at());
  expect(with([](RawTensor& t) { t.data_length = 25; }), ErrorCode::kRecordDataLength, bytes.size() - 8);
}

TEST(TensorHeaderBytesMax, HoldsTheLongestHeaders) {
  // Every byte of hashes that hashes_length can say would need more hashes than hash_count can: 255 of 32 bytes.
  RawHeader raw;
  raw.tensor.data_length = 10'000;
  raw.data_length = 10'000;
  raw.hashes = hash_list(std::vector<RawHash>(255, {1, Bytes(32)}));
  Bytes bytes = raw.bytes();
  EXPECT_EQ(decode(bytes).hashes.size(), 255U);
  EXPECT_LE(bytes.size(), tensor_header_bytes_max(raw.tensor.fields(), false));

  Bytes chunks;
  test::append_key_derivation(chunks, {1, 8192, {}});
  test::append_parallel(chunks, 1024, Bytes(kNonceBytes), Bytes(kMacBytes * 10));
  raw.crypt = test::block_of(2, chunks);
  bytes = raw.bytes();
  EXPECT_TRUE(decode(bytes, true).crypt.cipher);
  EXPECT_LE(bytes.size(), tensor_header_bytes_max(raw.tensor.fields(), true));
}

TEST(TensorHeaderBytesMax, IsInProportionToWhatIsThere) {
  RawTensor tensor;
  EXPECT_LT(tensor_header_bytes_max(tensor.fields(), true), 1U << 20);
  tensor.data_length = 0x7fffffffffffffff;
  EXPECT_LT(tensor_header_bytes_max(tensor.fields(), false), 1U << 20);
  EXPECT_LT(tensor_header_bytes_max(tensor.fields(), true), tensor.data_length / 32);
}

// The hashed bytes as FORMAT.md words them: the whole header, zeros for hash values, the crypt block left out.
Bytes hashed_by_definition(const RawHeader& raw, const std::vector<RawHash>& hashes) {
  std::vector<RawHash> zeroed = hashes;
  for (RawHash& hash : zeroed) std::ranges::fill(hash.value, std::byte{0});
  RawHeader without = raw;
  without.hashes = hash_list(zeroed);
  without.crypt.reset();
  Bytes bytes = without.bytes();
  store<std::uint64_t>(bytes, 0, raw.bytes().size());
  return bytes;
}

TEST(HashedHeader, IsTheHeaderWithoutHashValuesAndCryptBlock) {
  std::mt19937_64 random(5);
  const std::vector<std::vector<RawHash>> kHashes = {
      {},
      {{0, test::random_bytes(random, 4)}},
      {{1, test::random_bytes(random, 32)}},
      {{0, test::random_bytes(random, 4)}, {1, test::random_bytes(random, 32)}},
      {{1, test::random_bytes(random, 32)}, {0, test::random_bytes(random, 4)}, {1, test::random_bytes(random, 32)}}};
  for (const auto& hashes : kHashes) {
    for (RawHeader raw : {RawHeader(), encrypted_header()}) {
      raw.hashes = hash_list(hashes);
      const Bytes bytes = raw.bytes();
      Bytes out = {std::byte{0xaa}};
      append_hashed_header(Layout::kV1, bytes, decode(bytes, raw.crypt.has_value()), out);
      EXPECT_EQ(out.front(), std::byte{0xaa});
      EXPECT_EQ(copy(std::span(out).subspan(1)), hashed_by_definition(raw, hashes));
    }
  }
}

TEST(HashedHeader, OfHeadersFirstIsWhatPrecedesTheHashesAndTheDataLength) {
  for (const RawHeader& raw : {RawHeader(), encrypted_header()}) {
    const Bytes bytes = raw.bytes();
    const TensorHeader decoded = decode(bytes, raw.crypt.has_value());
    Bytes expected(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(raw.hashes_at() - 2));
    expected.insert(expected.end(), bytes.end() - 8, bytes.end());
    for (const Layout layout : {Layout::kV5HeadersFirst, Layout::kV5Segments}) {
      Bytes out;
      append_hashed_header(layout, bytes, decoded, out);
      EXPECT_EQ(out, expected);
    }
    Bytes classic;
    append_hashed_header(Layout::kV4, bytes, decoded, classic);
    for (const Layout layout : {Layout::kV5FlaggedDims, Layout::kV5LongDims}) {
      Bytes out;
      append_hashed_header(layout, bytes, decoded, out);
      EXPECT_EQ(out, classic) << layout_name(layout);
    }
    EXPECT_NE(classic, expected);
  }
}

TEST(TensorHeader, WideDimensions) {
  const RawTensor tensor{2, "name", "|u1", {}, 0};
  TensorFields fields = tensor.fields();
  fields.dimension_count = 2;
  fields.dimensions[0] = std::uint64_t{1} << 33;
  fields.dimensions[1] = 3;
  fields.wide_dimensions = true;
  const HeaderPlan plan{.crc32 = true, .sha256 = true};
  Bytes bytes;
  encode_tensor_header(fields, 7, plan, std::nullopt, bytes);
  EXPECT_EQ(bytes.size(), tensor_header_bytes(fields, plan));
  TensorHeader decoded;
  decode_tensor_header(bytes, kHeaderOffset, {.has_crypt = false, .wide_dimensions = true}, decoded);
  check_header_agrees(fields, decoded, kHeaderOffset);
  // The width is not in the header: who takes the other one finds a shape and hashes that are not there.
  EXPECT_THROW(decode_tensor_header(bytes, kHeaderOffset, {}, decoded), Error);
}

}  // namespace
}  // namespace tzmark
