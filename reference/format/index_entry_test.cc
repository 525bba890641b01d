// Tests of index entries and of the size that shape and dtype give.
#include <gtest/gtest.h>

#include <random>

#include "testing/caught.h"
#include "testing/files/structures.h"
#include "tzmark/format.h"

namespace tzmark {
namespace {

using test::Bytes;
using test::caught;
using test::failure;
using test::RawTensor;

constexpr std::uint64_t kEntryOffset = 73;

Bytes entry_bytes(const RawTensor& tensor, std::uint64_t header_offset, std::uint64_t data_offset) {
  Bytes bytes;
  ByteWriter writer(bytes);
  tensor.append_name(writer);
  writer.integer(tensor.kind);
  tensor.append_dtype_and_shape(writer);
  writer.integer(header_offset);
  writer.integer(data_offset);
  writer.integer(tensor.data_length);
  return bytes;
}

IndexEntry decode(std::span<const std::byte> bytes) {
  IndexEntry entry;
  ByteReader reader(bytes, kEntryOffset, ErrorCode::kIndexEntryPastEnd, "the index");
  decode_index_entry(reader, Layout::kV1, entry);
  return entry;
}

TEST(IndexEntry, RoundTripsOfRandomFields) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 300; ++round) {
    const RawTensor tensor = test::random_tensor(random);
    const std::uint64_t header_offset = random(), data_offset = random();
    Bytes encoded = {std::byte{0xaa}};
    ByteWriter writer(encoded);
    encode_index_entry(writer, Layout::kV1, tensor.fields(), header_offset, data_offset);
    encoded.erase(encoded.begin());
    ASSERT_EQ(encoded, entry_bytes(tensor, header_offset, data_offset));
    ASSERT_EQ(index_entry_bytes(Layout::kV1, tensor.fields()), encoded.size());
    const IndexEntry decoded = decode(encoded);
    test::expect_same_fields(decoded, tensor);
    ASSERT_EQ(decoded.header_offset, header_offset);
    ASSERT_EQ(decoded.data_offset, data_offset);
  }
}

TEST(IndexEntry, KnowsWhereItsFieldsLie) {
  const RawTensor tensor{2, "name", "<f8", {7, 8}, 448};
  const Bytes bytes = entry_bytes(tensor, 0x1111, 0x2222);
  const IndexEntry entry = decode(bytes);
  EXPECT_EQ(entry.name_at, kEntryOffset + 2);
  EXPECT_EQ(entry.kind_at, kEntryOffset + 2 + 4);
  EXPECT_EQ(entry.dtype_at, kEntryOffset + 2 + 4 + 1 + 1);
  EXPECT_EQ(entry.shape_at, kEntryOffset + 2 + 4 + 1 + 1 + 3);
  EXPECT_EQ(entry.header_offset_at, kEntryOffset + bytes.size() - 24);
  EXPECT_EQ(entry.data_offset_at, kEntryOffset + bytes.size() - 16);
  EXPECT_EQ(entry.data_length_at, kEntryOffset + bytes.size() - 8);
  EXPECT_EQ(load<std::uint64_t>(bytes, entry.header_offset_at - kEntryOffset), 0x1111U);
  EXPECT_EQ(load<std::uint64_t>(bytes, entry.data_offset_at - kEntryOffset), 0x2222U);
  EXPECT_EQ(load<std::uint64_t>(bytes, entry.data_length_at - kEntryOffset), 448U);
}

TEST(IndexEntry, SmallestAndLargest) {
  const RawTensor smallest{0, "", "", {}, 0};
  EXPECT_EQ(entry_bytes(smallest, 0, 0).size(), kIndexEntryBytesMin);
  const RawTensor largest{2, std::string(65535, 'n'), std::string(255, 'd'), std::vector<std::uint32_t>(255, 1), 0};
  const Bytes bytes = entry_bytes(largest, 1, 2);
  test::expect_same_fields(decode(bytes), largest);
  TensorFields wide = largest.fields();
  wide.wide_dimensions = true;
  EXPECT_EQ(index_entry_bytes(Layout::kV5FlaggedDims, wide), kIndexEntryBytesMax);
}

TEST(IndexEntry, LongDimensions) {
  std::mt19937_64 random(6);
  for (int round = 0; round < 300; ++round) {
    const RawTensor tensor = test::random_tensor(random);
    TensorFields fields = tensor.fields();
    fields.wide_dimensions = random() % 2 == 0;
    if (fields.wide_dimensions) {
      for (std::size_t i = 0; i < fields.dimension_count; ++i) fields.dimensions[i] = random();
    }
    const Layout layout = round % 2 == 0 ? Layout::kV5FlaggedDims : Layout::kV5LongDims;
    Bytes bytes;
    ByteWriter writer(bytes);
    encode_index_entry(writer, layout, fields, 1, 2);
    ASSERT_EQ(bytes.size(), index_entry_bytes(layout, fields));
    EXPECT_EQ(load<std::uint32_t>(bytes, 0), fields.wide_dimensions ? 5U : 1U);
    IndexEntry entry;
    ByteReader reader(bytes, kEntryOffset, ErrorCode::kIndexEntryPastEnd, "the index");
    decode_index_entry(reader, layout, entry);
    EXPECT_EQ(reader.remaining(), 0U);
    EXPECT_EQ(entry.name, fields.name);
    EXPECT_EQ(entry.wide_dimensions, fields.wide_dimensions);
    EXPECT_TRUE(std::ranges::equal(entry.shape(), fields.shape()));
    EXPECT_EQ(entry.data_length, fields.data_length);
    // Without its version and its wide dimensions the entry is that of the other layouts.
    if (!fields.wide_dimensions) {
      EXPECT_EQ(Bytes(bytes.begin() + 4, bytes.end()), entry_bytes(tensor, 1, 2));
    }
  }
}

TEST(IndexEntry, UnknownVersions) {
  for (const std::uint32_t version : {0U, 2U, 4U, 6U, 0x100U, 0x01000000U, 0xffffffffU}) {
    Bytes bytes(4);
    store(bytes, 0, version);
    const Bytes rest = entry_bytes({0, "name", "<f4", {2}, 8}, 0, 0);
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    EXPECT_EQ(caught([&] {
                IndexEntry entry;
                ByteReader reader(bytes, kEntryOffset, ErrorCode::kIndexEntryPastEnd, "the index");
                decode_index_entry(reader, Layout::kV5FlaggedDims, entry);
              }),
              failure(ErrorCode::kIndexEntryVersion, kEntryOffset));
  }
}

TEST(IndexEntry, LeavesTheNextOneAlone) {
  const RawTensor first{0, "a", "<f4", {1}, 4}, second{1, "b", "|u1", {}, 1};
  Bytes bytes = entry_bytes(first, 1, 2);
  const Bytes more = entry_bytes(second, 3, 4);
  bytes.insert(bytes.end(), more.begin(), more.end());
  ByteReader reader(bytes, 0, ErrorCode::kIndexEntryPastEnd, "the index");
  // One object serves all entries of an index; nothing of the first must show in the second.
  IndexEntry entry;
  decode_index_entry(reader, Layout::kV1, entry);
  test::expect_same_fields(entry, first);
  decode_index_entry(reader, Layout::kV1, entry);
  test::expect_same_fields(entry, second);
  EXPECT_EQ(entry.name_at, bytes.size() - more.size() + 2);
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(IndexEntry, UnknownKinds) {
  for (int kind = 3; kind < 256; ++kind) {
    const RawTensor tensor{static_cast<std::uint8_t>(kind), "name", "<f4", {2}, 8};
    EXPECT_EQ(caught([&] { decode(entry_bytes(tensor, 0, 0)); }), failure(ErrorCode::kIndexKind, kEntryOffset + 6));
  }
}

TEST(IndexEntry, LengthsThatRunPastTheEnd) {
  const RawTensor tensor{0, "name", "<f4", {2, 3}, 24};
  const Bytes whole = entry_bytes(tensor, 0, 0);
  const auto with = [&](std::size_t at, std::initializer_list<int> values) {
    Bytes bytes = whole;
    for (const int value : values) bytes[at++] = static_cast<std::byte>(value);
    return bytes;
  };
  EXPECT_EQ(caught([&] { decode(with(0, {0xff, 0xff})); }), failure(ErrorCode::kIndexEntryPastEnd, kEntryOffset + 2));
  EXPECT_EQ(caught([&] { decode(with(7, {0xff})); }), failure(ErrorCode::kIndexEntryPastEnd, kEntryOffset + 8));
  EXPECT_EQ(caught([&] { decode(with(11, {0xff})); }), failure(ErrorCode::kIndexEntryPastEnd, kEntryOffset + 12));
}

TEST(IndexEntry, EveryTruncation) {
  std::mt19937_64 random(2);
  for (int round = 0; round < 10; ++round) {
    RawTensor tensor = test::random_tensor(random);
    tensor.name.resize(tensor.name.size() % 100);
    const Bytes bytes = entry_bytes(tensor, random(), random());
    test::expect_every_truncation_throws(bytes, [](auto beginning) { decode(beginning); });
  }
}

TEST(IndexEntry, TruncationIsPlacedAtTheFieldThatLacksBytes) {
  const Bytes bytes = entry_bytes({0, "name", "<f4", {2}, 8}, 0, 0);
  // The first byte of each field, with its length in front as a field of its own.
  const std::vector<std::size_t> fields = {0, 2, 6, 7, 8, 11, 12, 16, 24, 32};
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const std::size_t field = *std::prev(std::ranges::upper_bound(fields, length));
    EXPECT_EQ(caught([&] { decode(std::span(bytes).first(length)); }),
              failure(ErrorCode::kIndexEntryPastEnd, kEntryOffset + field))
        << length;
  }
}

TEST(IndexEntry, DamageIsHarmless) {
  test::expect_damage_is_harmless(entry_bytes({0, "name", "<f4", {2, 3}, 24}, 1, 2), 3,
                                  [](auto bytes) { decode(bytes); });
}

TEST(NominalBytes, AgreesWithArithmeticThatDoesNotOverflow) {
  __extension__ using Wide = unsigned __int128;
  std::mt19937_64 random(4);
  std::size_t too_large = 0;
  for (int round = 0; round < 100'000; ++round) {
    std::vector<std::uint64_t> shape(random() % 6);
    for (std::uint64_t& dimension : shape) dimension = random() >> (24 + random() % 40);
    const std::uint64_t item_bytes = std::uint64_t{1} << random() % 5;
    std::optional<std::uint64_t> expected;
    Wide product = item_bytes;
    bool large = false;
    for (const std::uint64_t dimension : shape) {
      product *= dimension;
      // Saturates well below what the type holds, so that a later zero still gives zero.
      if (product >> 63 != 0) product = Wide{1} << 63;
    }
    large = product >> 63 != 0;
    if (!large) expected = static_cast<std::uint64_t>(product);
    too_large += large ? 1 : 0;
    ASSERT_EQ(nominal_bytes(shape, item_bytes), expected);
  }
  EXPECT_GT(too_large, 1000U);
}

TEST(NominalBytes, Limits) {
  const auto of = [](std::vector<std::uint64_t> shape, std::uint64_t item_bytes) {
    return nominal_bytes(shape, item_bytes);
  };
  constexpr std::uint64_t kMax = 0xffffffff;
  EXPECT_EQ(of({}, 8), 8U);
  EXPECT_EQ(of({0}, 8), 0U);
  EXPECT_EQ(of({kMax, kMax, kMax, 0}, 8), 0U);
  EXPECT_EQ(of({0, kMax, kMax, kMax}, 8), 0U);
  EXPECT_EQ(of({std::uint64_t{1} << 60}, 4), std::uint64_t{1} << 62);
  EXPECT_EQ(of({std::uint64_t{1} << 60}, 8), std::nullopt);
  EXPECT_EQ(of({std::uint64_t{1} << 61}, 8), std::nullopt);   // 2^64, which must not pass for 0
  EXPECT_EQ(of({std::uint64_t{1} << 62}, 16), std::nullopt);  // 2^66
  EXPECT_EQ(of({0x7fffffffffffffff}, 1), 0x7fffffffffffffffU);
  EXPECT_EQ(of(std::vector<std::uint64_t>(255, 1), 16), 16U);
  EXPECT_EQ(of(std::vector<std::uint64_t>(255, 2), 1), std::nullopt);
}

}  // namespace
}  // namespace tzmark
