// Tests of the file header, and of the names of layouts and kinds.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "testing/caught.h"
#include "testing/files/structures.h"
#include "tzmark/format.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;

// A file header, field by field.
Bytes header_bytes(std::uint32_t version, std::uint8_t first_flags, std::uint64_t total, std::uint64_t count) {
  Bytes bytes(65);
  std::ranges::copy(as_bytes("|TZR|"), bytes.begin());
  store(bytes, 5, version);
  store(bytes, 9, first_flags);
  store(bytes, 41, total);
  store(bytes, 57, count);
  return bytes;
}

TEST(FileHeader, DecodesItsFields) {
  const FileHeader header = decode_file_header(header_bytes(4, 1, 0x0102030405060708, 0x1112131415161718));
  EXPECT_EQ(header.data_version, 4U);
  EXPECT_TRUE(header.encrypted);
  EXPECT_EQ(header.total_data_bytes, 0x0102030405060708U);
  EXPECT_EQ(header.tensor_count, 0x1112131415161718U);
}

TEST(FileHeader, EncodesWhatItDecodes) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 500; ++round) {
    FileHeader header;
    header.data_version = static_cast<std::uint32_t>(1 + random() % 5);
    header.encrypted = header.data_version == 3 || (header.data_version > 3 && random() % 2 == 0);
    header.total_data_bytes = random();
    header.tensor_count = 1 + (random() >> random() % 64) / 2;
    const auto encoded = encode_file_header(header);
    EXPECT_EQ(test::copy(encoded),
              header_bytes(header.data_version, header.encrypted && header.data_version > 3 ? 1 : 0,
                           header.total_data_bytes, header.tensor_count));
    const FileHeader decoded = decode_file_header(encoded);
    EXPECT_EQ(decoded.data_version, header.data_version);
    EXPECT_EQ(decoded.encrypted, header.encrypted);
    EXPECT_EQ(decoded.total_data_bytes, header.total_data_bytes);
    EXPECT_EQ(decoded.tensor_count, header.tensor_count);
  }
}

TEST(FileHeader, IsAllThatIsRead) {
  Bytes bytes = header_bytes(1, 0, 8, 1);
  bytes.resize(1000, std::byte{0xff});
  EXPECT_EQ(decode_file_header(bytes).tensor_count, 1U);
}

TEST(FileHeader, TruncatedAtEveryLength) {
  const Bytes whole = header_bytes(1, 0, 8, 1);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const Bytes beginning(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_EQ(caught([&] { decode_file_header(beginning); }), failure(ErrorCode::kHeaderTruncated, length)) << length;
  }
  EXPECT_EQ(caught([] { decode_file_header({}); }), failure(ErrorCode::kHeaderTruncated, 0));
}

TEST(FileHeader, EveryByteOfTheMagicCounts) {
  for (std::size_t at = 0; at < kMagic.size(); ++at) {
    Bytes bytes = header_bytes(1, 0, 8, 1);
    bytes[at] ^= std::byte{0x20};
    EXPECT_EQ(caught([&] { decode_file_header(bytes); }), failure(ErrorCode::kHeaderMagic, 0)) << at;
    // A short file that begins otherwise is no cut .tensors file.
    bytes.resize(at + 1);
    EXPECT_EQ(caught([&] { decode_file_header(bytes); }), failure(ErrorCode::kHeaderMagic, 0)) << at;
  }
}

TEST(FileHeader, DataVersionsOneToFive) {
  for (const std::uint32_t version : {1U, 2U, 3U, 4U, 5U}) {
    EXPECT_EQ(decode_file_header(header_bytes(version, 0, 8, 1)).data_version, version);
  }
  for (const std::uint32_t version : {0U, 6U, 255U, 0x01000000U, 0x00000101U, 0xffffffffU}) {
    EXPECT_EQ(caught([&] { decode_file_header(header_bytes(version, 0, 8, 1)); }),
              failure(ErrorCode::kHeaderVersion, 5))
        << version;
  }
}

TEST(FileHeader, FlagsCountFromVersionFourOn) {
  for (const std::uint32_t version : {1U, 2U, 3U}) {
    Bytes bytes = header_bytes(version, 0, 8, 1);
    std::fill_n(bytes.begin() + 9, 32, std::byte{0xff});
    EXPECT_EQ(decode_file_header(bytes).encrypted, version == 3) << version;
    EXPECT_EQ(decode_file_header(header_bytes(version, 0, 8, 1)).encrypted, version == 3) << version;
  }
  for (const std::uint32_t version : {4U, 5U}) {
    EXPECT_FALSE(decode_file_header(header_bytes(version, 0, 8, 1)).encrypted);
    EXPECT_TRUE(decode_file_header(header_bytes(version, 1, 8, 1)).encrypted);
    for (std::size_t bit = 1; bit < 256; ++bit) {
      for (const bool encrypted : {false, true}) {
        // The lowest of these marks a layout, and the highest is tzmark's own, see below.
        if (version == 5 && (bit == 1 || bit == 255)) continue;
        Bytes bytes = header_bytes(version, encrypted, 8, 1);
        bytes[9 + bit / 8] |= std::byte{1} << static_cast<int>(bit % 8);
        EXPECT_EQ(caught([&] { decode_file_header(bytes); }), failure(ErrorCode::kHeaderFlags, 9 + bit / 8)) << bit;
      }
    }
  }
}

TEST(FileHeader, FlaggedDimensionsAreThoseOfVersionFive) {
  for (const bool encrypted : {false, true}) {
    Bytes bytes = header_bytes(5, encrypted, 8, 1);
    EXPECT_EQ(decode_file_header(bytes).layout_flag, 0);
    bytes[9] |= std::byte{2};
    const FileHeader header = decode_file_header(bytes);
    EXPECT_EQ(header.layout_flag, 2);
    EXPECT_EQ(header.encrypted, encrypted);
    EXPECT_TRUE(std::ranges::equal(encode_file_header(header), bytes));
    // Only v5-segments can be split.
    bytes[40] = std::byte{0x80};
    EXPECT_EQ(caught([&] { decode_file_header(bytes); }), failure(ErrorCode::kHeaderFlags, 9));
  }
}

TEST(FileHeader, DetachedDataIsMarkedFromVersionFiveOn) {
  Bytes bytes = header_bytes(5, 1, 8, 1);
  EXPECT_FALSE(decode_file_header(bytes).detached_data);
  store<std::uint64_t>(bytes, 49, 0x1122334455667788);
  EXPECT_EQ(decode_file_header(bytes).pair_number, 0U);
  bytes[40] = std::byte{0x80};
  const FileHeader header = decode_file_header(bytes);
  EXPECT_TRUE(header.detached_data);
  EXPECT_TRUE(header.encrypted);
  EXPECT_EQ(header.pair_number, 0x1122334455667788U);
  EXPECT_EQ(test::copy(encode_file_header(header)), bytes);
}

TEST(FileHeader, UnusedBytesAreIgnored) {
  Bytes bytes = header_bytes(4, 0, 8, 1);
  std::fill_n(bytes.begin() + 49, 8, std::byte{0xff});
  const FileHeader header = decode_file_header(bytes);
  EXPECT_EQ(header.total_data_bytes, 8U);
  EXPECT_EQ(header.tensor_count, 1U);
}

TEST(FileHeader, AtLeastOneTensor) {
  EXPECT_EQ(caught([] { decode_file_header(header_bytes(1, 0, 8, 0)); }), failure(ErrorCode::kHeaderCount, 57));
  EXPECT_EQ(decode_file_header(header_bytes(1, 0, 8, ~std::uint64_t{0})).tensor_count, ~std::uint64_t{0});
}

TEST(FileHeader, DamageIsHarmless) {
  test::expect_damage_is_harmless(header_bytes(4, 1, 8, 1), 2, [](auto bytes) { decode_file_header(bytes); });
}

TEST(Layouts, HaveNames) {
  for (const auto& [layout, name] :
       std::vector<std::pair<Layout, std::string_view>>{{Layout::kV1, "v1"},
                                                        {Layout::kV2, "v2"},
                                                        {Layout::kV3, "v3"},
                                                        {Layout::kV4, "v4"},
                                                        {Layout::kV5HeadersFirst, "v5-headers-first"},
                                                        {Layout::kV5Segments, "v5-segments"},
                                                        {Layout::kV5LongDims, "v5-long-dims"},
                                                        {Layout::kV5FlaggedDims, "v5-flagged-dims"}}) {
    EXPECT_EQ(layout_name(layout), name);
    EXPECT_EQ(layout_from_name(name), layout);
    EXPECT_EQ("v" + std::to_string(data_version(layout)), name.substr(0, 2));
  }
  EXPECT_EQ(kLayouts.size(), 8U);
  for (const char* name : {"", "v", "v0", "V1", "1", "v1 ", "auto", "v44"}) {
    EXPECT_EQ(layout_from_name(name), std::nullopt) << name;
  }
}

TEST(Kinds, HaveNames) {
  EXPECT_EQ(kind_name(Kind::kParameter), "parameter");
  EXPECT_EQ(kind_name(Kind::kBuffer), "buffer");
  EXPECT_EQ(kind_name(Kind::kStateDict), "state_dict");
}

}  // namespace
}  // namespace tzmark
