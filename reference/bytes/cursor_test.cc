// Tests of the cursor over wire bytes.
#include "bytes/cursor.h"

#include <gtest/gtest.h>

#include "testing/caught.h"

namespace tzmark {
namespace {

using test::caught;
using test::failure;

std::vector<std::byte> bytes_of(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

ByteReader reader_of(std::span<const std::byte> bytes, std::uint64_t file_offset = 0) {
  return {bytes, file_offset, ErrorCode::kIndexEntryPastEnd, "the index"};
}

TEST(ByteReader, ReadsLittleEndianIntegers) {
  const auto bytes = bytes_of({0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b, 0x0a, 0x09, 0x88,
                               0xfe, 0xff, 0xff, 0xff});
  ByteReader reader = reader_of(bytes);
  EXPECT_EQ(reader.integer<std::uint8_t>("a"), 0x01);
  EXPECT_EQ(reader.integer<std::uint16_t>("b"), 0x0203);
  EXPECT_EQ(reader.integer<std::uint32_t>("c"), 0x04050607U);
  EXPECT_EQ(reader.integer<std::uint64_t>("d"), 0x88090a0b0c0d0e0fU);
  EXPECT_EQ(reader.integer<std::int32_t>("e"), -2);
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(ByteReader, KnowsItsPlaceInTheFile) {
  const auto bytes = bytes_of({1, 2, 3, 4, 5});
  ByteReader reader = reader_of(bytes, 1000);
  EXPECT_EQ(reader.position(), 0U);
  EXPECT_EQ(reader.file_position(), 1000U);
  EXPECT_EQ(reader.take(3, "a").data(), bytes.data());
  EXPECT_EQ(reader.position(), 3U);
  EXPECT_EQ(reader.file_position(), 1003U);
  EXPECT_EQ(reader.remaining(), 2U);
  EXPECT_EQ(reader.take(0, "nothing").size(), 0U);
  EXPECT_EQ(reader.take(2, "b").data(), bytes.data() + 3);
}

TEST(ByteReader, TextIsLengthAndBytes) {
  const auto bytes = bytes_of({2, 0, 'h', 'i', 0, 1, '!'});
  ByteReader reader = reader_of(bytes);
  EXPECT_EQ(reader.text<std::uint16_t>("a"), "hi");
  EXPECT_EQ(reader.text<std::uint8_t>("b"), "");
  EXPECT_EQ(reader.text<std::uint8_t>("c"), "!");
}

TEST(ByteReader, FieldThatDoesNotFitIsTheErrorOfTheRegion) {
  const auto bytes = bytes_of({1, 2, 3});
  ByteReader reader = reader_of(bytes, 70);
  reader.take(1, "a");
  EXPECT_EQ(caught([&] { reader.integer<std::uint32_t>("a number"); }), failure(ErrorCode::kIndexEntryPastEnd, 71));
  try {
    reader.take(3, "a name");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "a name runs past the end of the index");
  }
  // A field that failed has not moved the cursor.
  EXPECT_EQ(reader.take(2, "the rest").size(), 2U);
}

TEST(ByteReader, HugeLengthsDoNotOverflow) {
  const auto bytes = bytes_of({1, 2, 3});
  ByteReader reader = reader_of(bytes, 70);
  reader.take(2, "a");
  for (const std::uint64_t length :
       {~std::uint64_t{0}, ~std::uint64_t{0} - 1, std::uint64_t{1} << 63, std::uint64_t{1} << 32, std::uint64_t{2}}) {
    EXPECT_EQ(caught([&] { reader.take(length, "data"); }), failure(ErrorCode::kIndexEntryPastEnd, 72)) << length;
  }
}

TEST(ByteReader, TextThatDoesNotFitIsFoundBehindItsLength) {
  const auto bytes = bytes_of({0xff, 0xff, 'x'});
  ByteReader reader = reader_of(bytes, 10);
  EXPECT_EQ(caught([&] { reader.text<std::uint16_t>("a name"); }), failure(ErrorCode::kIndexEntryPastEnd, 12));
}

TEST(ByteReader, NothingToRead) {
  ByteReader reader = reader_of({}, 5);
  EXPECT_EQ(reader.take(0, "nothing").size(), 0U);
  EXPECT_EQ(caught([&] { reader.integer<std::uint8_t>("a"); }), failure(ErrorCode::kIndexEntryPastEnd, 5));
}

TEST(ByteWriter, AppendsWhatTheReaderReads) {
  std::vector<std::byte> out = bytes_of({0xaa});
  ByteWriter writer(out);
  EXPECT_EQ(writer.position(), 1U);
  writer.integer(std::uint16_t{0x0203});
  writer.integer(std::int64_t{-2});
  writer.text<std::uint8_t>("hi");
  writer.zeros(2);
  writer.bytes(bytes_of({9}));
  EXPECT_EQ(writer.position(), out.size());
  EXPECT_EQ(out, bytes_of({0xaa, 0x03, 0x02, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 'h', 'i', 0, 0, 9}));
  ByteReader reader = reader_of(std::span<const std::byte>(out).subspan(1));
  EXPECT_EQ(reader.integer<std::uint16_t>("a"), 0x0203);
  EXPECT_EQ(reader.integer<std::int64_t>("b"), -2);
  EXPECT_EQ(reader.text<std::uint8_t>("c"), "hi");
}

TEST(LoadStore, WorkAtUnalignedPlaces) {
  std::vector<std::byte> bytes(11);
  for (std::size_t at = 0; at + sizeof(std::uint64_t) <= bytes.size(); ++at) {
    store<std::uint64_t>(bytes, at, 0x0102030405060708U + at);
    EXPECT_EQ(load<std::uint64_t>(bytes, at), 0x0102030405060708U + at);
    EXPECT_EQ(load<std::uint8_t>(bytes, at), 8 + at);
  }
}

}  // namespace
}  // namespace tzmark
