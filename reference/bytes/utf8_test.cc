// Tests of UTF-8 validation against a decoder that works another way, and of printable text.
#include "bytes/utf8.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace tzmark {
namespace {

// The number of bytes of the well-formed sequence at the front of text, 0 if there is none. Decodes first and judges
// the number, where the code under test judges the bytes.
std::size_t sequence_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  constexpr std::array<std::uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  std::size_t length = 0;
  std::uint32_t code_point = 0;
  if ((byte(0) & 0x80) == 0) return 1;
  if ((byte(0) & 0xe0) == 0xc0) length = 2, code_point = byte(0) & 0x1f;
  if ((byte(0) & 0xf0) == 0xe0) length = 3, code_point = byte(0) & 0x0f;
  if ((byte(0) & 0xf8) == 0xf0) length = 4, code_point = byte(0) & 0x07;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code_point = code_point << 6 | (byte(i) & 0x3f);
  }
  const bool surrogate = code_point >= 0xd800 && code_point <= 0xdfff;
  return code_point >= kSmallest[length] && code_point <= 0x10ffff && !surrogate ? length : 0;
}

std::optional<std::size_t> expected_invalid(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_bytes(text.substr(i));
    if (length == 0) return i;
    i += length;
  }
  return std::nullopt;
}

std::string text_of(std::initializer_list<int> bytes) {
  std::string text;
  for (const int byte : bytes) text += static_cast<char>(byte);
  return text;
}

std::string encode(std::uint32_t code_point) {
  const auto tail = [&](int shift) { return static_cast<int>(0x80 | ((code_point >> shift) & 0x3f)); };
  const auto head = [&](int mark, int shift) { return static_cast<int>(mark | code_point >> shift); };
  if (code_point < 0x80) return text_of({static_cast<int>(code_point)});
  if (code_point < 0x800) return text_of({head(0xc0, 6), tail(0)});
  if (code_point < 0x10000) return text_of({head(0xe0, 12), tail(6), tail(0)});
  return text_of({head(0xf0, 18), tail(12), tail(6), tail(0)});
}

// Every byte at which a rule of table 3-7 begins or ends, with its neighbours.
constexpr std::array kBoundaries = {0x00, 0x41, 0x7f, 0x80, 0x81, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf,
                                    0xe0, 0xe1, 0xec, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xf7, 0xf8, 0xff};

TEST(FindInvalidUtf8, BoundariesOfTheUnicodeTable) {
  for (const auto& good : {text_of({}), text_of({0x00}), text_of({0x7f}), text_of({0xc2, 0x80}), text_of({0xdf, 0xbf}),
                           text_of({0xe0, 0xa0, 0x80}), text_of({0xe0, 0xbf, 0xbf}), text_of({0xe1, 0x80, 0x80}),
                           text_of({0xec, 0xbf, 0xbf}), text_of({0xed, 0x80, 0x80}), text_of({0xed, 0x9f, 0xbf}),
                           text_of({0xee, 0x80, 0x80}), text_of({0xef, 0xbf, 0xbf}), text_of({0xf0, 0x90, 0x80, 0x80}),
                           text_of({0xf3, 0xbf, 0xbf, 0xbf}), text_of({0xf4, 0x8f, 0xbf, 0xbf})}) {
    EXPECT_EQ(find_invalid_utf8(good), std::nullopt) << printable(good);
  }
  for (const auto& bad :
       {text_of({0x80}), text_of({0xbf}), text_of({0xc0, 0x80}), text_of({0xc1, 0xbf}), text_of({0xc2, 0x7f}),
        text_of({0xc2, 0xc0}), text_of({0xe0, 0x9f, 0xbf}), text_of({0xe0, 0xa0, 0xc0}), text_of({0xed, 0xa0, 0x80}),
        text_of({0xed, 0xbf, 0xbf}), text_of({0xf0, 0x8f, 0xbf, 0xbf}), text_of({0xf4, 0x90, 0x80, 0x80}),
        text_of({0xf5, 0x80, 0x80, 0x80}), text_of({0xf8, 0x88, 0x80, 0x80, 0x80}), text_of({0xff}), text_of({0xfe}),
        text_of({0xc2}), text_of({0xe1, 0x80}), text_of({0xf1, 0x80, 0x80})}) {
    EXPECT_EQ(find_invalid_utf8(bad), 0U) << printable(bad);
  }
}

TEST(FindInvalidUtf8, EveryStringOfOneAndTwoBytes) {
  for (int a = 0; a < 256; ++a) {
    const std::string one = text_of({a});
    ASSERT_EQ(find_invalid_utf8(one), expected_invalid(one)) << printable(one);
    for (int b = 0; b < 256; ++b) {
      const std::string two = text_of({a, b});
      ASSERT_EQ(find_invalid_utf8(two), expected_invalid(two)) << printable(two);
    }
  }
}

TEST(FindInvalidUtf8, SampleOfThreeAndFourBytes) {
  for (int a = 0; a < 256; ++a) {
    for (int b = 0; b < 256; ++b) {
      for (const int c : kBoundaries) {
        const std::string three = text_of({a, b, c});
        ASSERT_EQ(find_invalid_utf8(three), expected_invalid(three)) << printable(three);
      }
    }
  }
  for (const int a : kBoundaries) {
    for (int b = 0; b < 256; ++b) {
      for (const int c : kBoundaries) {
        for (const int d : kBoundaries) {
          const std::string four = text_of({a, b, c, d});
          ASSERT_EQ(find_invalid_utf8(four), expected_invalid(four)) << printable(four);
        }
      }
    }
  }
}

TEST(FindInvalidUtf8, EveryCodePointAndNoSurrogate) {
  for (std::uint32_t code_point = 0; code_point <= 0x1fffff; ++code_point) {
    const bool valid = code_point <= 0x10ffff && (code_point < 0xd800 || code_point > 0xdfff);
    ASSERT_EQ(find_invalid_utf8(encode(code_point)).has_value(), !valid) << code_point;
  }
}

TEST(FindInvalidUtf8, PointsAtTheStartOfTheBadSequence) {
  EXPECT_EQ(find_invalid_utf8("ab\xc3\xa4"
                              "c\xff"),
            5U);
  EXPECT_EQ(find_invalid_utf8("ab\xe2\x82"), 2U);
  EXPECT_EQ(find_invalid_utf8("\xf0\x9f\x98\x80\x80"), 4U);
}

TEST(Printable, KeepsText) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("layers.0.weight \\ '\""), "layers.0.weight \\ '\"");
  EXPECT_EQ(printable("\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0"),
            "\xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0");
}

TEST(Printable, EscapesControlCharacters) {
  for (int c = 0; c < 0x20; ++c) {
    EXPECT_EQ(printable("<" + text_of({c}) + ">"), fmt::format("<\\x{:02x}>", c));
  }
  EXPECT_EQ(printable("\x7f"), "\\x7f");
}

TEST(Printable, EscapesControlCharactersBeyondAscii) {
  // Terminals take U+009B for the start of an escape sequence, and U+0085 for the end of a line.
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J"),
            "\\xc2\\x9b2J");
  EXPECT_EQ(printable("\xc2\x80\xc2\x85\xc2\x9f"), "\\xc2\\x80\\xc2\\x85\\xc2\\x9f");
}

TEST(Printable, EscapesLineSeparators) {
  EXPECT_EQ(printable("a\xe2\x80\xa8"
                      "b\xe2\x80\xa9"
                      "c"),
            "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9c");
  // Their neighbours are ordinary.
  EXPECT_EQ(printable("\xe2\x80\xa7\xe2\x81\x80"), "\xe2\x80\xa7\xe2\x81\x80");
}

std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return result;
}

TEST(Printable, EscapesWhatReversesOrHidesText) {
  for (const std::uint32_t hidden :
       {0x00ad, 0x034f, 0x061c, 0x115f, 0x180e, 0x200b, 0x200d, 0x200e,  0x200f,  0x202a,  0x202e,  0x2060, 0x2066,
        0x2069, 0x206f, 0x3164, 0xfe0f, 0xfeff, 0xffa0, 0xfff9, 0x13430, 0x1d173, 0xe0001, 0xe007f, 0xe0fff}) {
    EXPECT_EQ(printable("a" + encode(hidden) + "b"), "a" + escaped(encode(hidden)) + "b") << std::hex << hidden;
  }
  for (const std::uint32_t shown : {0x00ac, 0x00ae, 0x200a, 0x2010, 0x202f, 0x205f, 0x2070, 0x3163, 0x3165, 0xfdff,
                                    0xfe10, 0xfefe, 0xffa1, 0xfffc, 0xfffd, 0x1d172, 0x1d17b, 0xdffff, 0xe1000}) {
    EXPECT_EQ(printable(encode(shown)), encode(shown)) << std::hex << shown;
  }
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("a\xff\xfe"
                      "b"),
            "a\\xff\\xfeb");
  EXPECT_EQ(printable("\xc3\xa4\xc3"), "\xc3\xa4\\xc3");
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");
  EXPECT_EQ(printable("\xe2\x82"
                      "x"),
            "\\xe2\\x82x");
}

TEST(Printable, IsAlwaysOneValidLine) {
  for (int a = 0; a < 256; ++a) {
    for (const int b : kBoundaries) {
      for (const int c : kBoundaries) {
        const std::string text = printable(text_of({a, b, c}));
        ASSERT_FALSE(find_invalid_utf8(text)) << text;
        ASSERT_EQ(printable(text), text);
      }
    }
  }
}

}  // namespace
}  // namespace tzmark
