// Tests of the layout section.
#include <gtest/gtest.h>

#include <random>
#include <string_view>

#include "testing/caught.h"
#include "testing/files/structures.h"
#include "tzmark/format.h"

namespace tzmark {
namespace {

using namespace std::string_view_literals;
using test::Bytes;
using test::caught;
using test::failure;

// The section, field by field, behind a file header of zeros.
Bytes section_bytes(const Segments& s) {
  Bytes bytes(65);
  ByteWriter writer(bytes);
  writer.integer(std::uint64_t{45});
  for (const unsigned char byte : "\x01\x03\x01"sv) writer.integer(byte);
  writer.integer(s.metadata_begin);
  writer.integer(s.metadata_end);
  writer.integer(std::uint8_t{2});
  writer.integer(s.headers_begin);
  writer.integer(s.headers_end);
  writer.integer(std::uint8_t{3});
  writer.integer(s.data_begin);
  return bytes;
}

constexpr Segments kSegments{118, 4096, 4096, 8192, 8192};

TEST(LayoutSection, RoundTrips) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 100; ++round) {
    const Segments segments{random(), random(), random(), random(), random()};
    const Bytes bytes = section_bytes(segments);
    ASSERT_EQ(bytes.size(), 118U);
    EXPECT_TRUE(has_layout_section(bytes));
    EXPECT_EQ(decode_layout_section(bytes), segments);
    const auto encoded = encode_layout_section(segments);
    EXPECT_EQ(test::copy(encoded), Bytes(bytes.begin() + 65, bytes.end()));
  }
}

TEST(LayoutSection, ElevenBytesTellThatItIsThere) {
  const Bytes whole = section_bytes(kSegments);
  for (std::size_t length = 0; length <= whole.size(); ++length) {
    EXPECT_EQ(has_layout_section(std::span(whole).first(length)), length >= 76) << length;
  }
  for (std::size_t at = 65; at < whole.size(); ++at) {
    Bytes bytes = whole;
    bytes[at] ^= std::byte{4};
    EXPECT_EQ(has_layout_section(bytes), at >= 76) << at;
  }
}

TEST(LayoutSection, OtherVersionsCountsAndTags) {
  for (const std::size_t at : {73U, 74U, 75U, 92U, 109U}) {
    Bytes bytes = section_bytes(kSegments);
    bytes[at] ^= std::byte{8};
    EXPECT_EQ(caught([&] { decode_layout_section(bytes); }), failure(ErrorCode::kSegmentLayout, at)) << at;
  }
}

TEST(LayoutSection, OtherLengths) {
  for (const std::uint64_t length : {0U, 44U, 46U}) {
    Bytes bytes = section_bytes(kSegments);
    store(bytes, 65, length);
    EXPECT_EQ(caught([&] { decode_layout_section(bytes); }), failure(ErrorCode::kSegmentLayout, 65));
  }
}

TEST(LayoutSection, EveryTruncation) {
  const Bytes whole = section_bytes(kSegments);
  for (std::size_t length = 65; length < whole.size(); ++length) {
    EXPECT_EQ(caught([&] { decode_layout_section(std::span(whole).first(length)); }),
              failure(ErrorCode::kSegmentLayout, length));
  }
}

}  // namespace
}  // namespace tzmark
