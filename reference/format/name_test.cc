// Tests of stored names: every odd spelling of JSON, and what a writer makes of a path.
#include <gtest/gtest.h>

#include <random>

#include "bytes/utf8.h"
#include "testing/caught.h"
#include "tzmark/path.h"

namespace tzmark {
namespace {

using namespace std::string_literals;
using test::caught;
using test::failure;

constexpr std::uint64_t operator""_th(unsigned long long position) { return position; }

Path parse_json(const std::string& json) { return parse_name(kStructuredNameMark + json, 100); }

TEST(ParseName, PlainNamesAreOneString) {
  for (const std::string& name : {""s, "w"s, "layers.0.weight"s, "[\"a\",0]"s, "a\nb"s, "a\0b"s, "a\x1e"s, " "s,
                                  "\xc3\xa4\xf0\x9f\x98\x80"s, std::string(65535, 'x')}) {
    EXPECT_EQ(parse_name(name), Path{name}) << printable(name);
  }
}

TEST(ParseName, StructuredNames) {
  const std::vector<std::pair<std::string, Path>> kCases = {
      {R"(["a"])", {"a"}},
      {R"(["layers",0,"weight"])", {"layers", 0_th, "weight"}},
      {R"([0])", {0_th}},
      {R"([0,0,10])", {0_th, 0_th, 10_th}},
      {R"([18446744073709551615])", {18446744073709551615_th}},
      {R"([9223372036854775808])", {9223372036854775808_th}},
      {R"([""])", {""}},
      {R"(["a","",""])", {"a", "", ""}},
      {R"(["0",0])", {"0", 0_th}},
      {"[ \"a\" ,\t1 ]", {"a", 1_th}},
      {"  [\"a\"]\t ", {"a"}},
      {R"(["\u0061\u00fc\u00FC"])", {"a\xc3\xbc\xc3\xbc"}},
      {"[\"\xc3\xbc\xf0\x9f\x98\x80\"]", {"\xc3\xbc\xf0\x9f\x98\x80"}},
      {R"(["\ud83d\ude00\uD83D\uDE00"])", {"\xf0\x9f\x98\x80\xf0\x9f\x98\x80"}},
      {R"(["\"\\\/\b\f\n\r\t"])", {"\"\\/\b\f\n\r\t"}},
      {R"(["a\u0000b"])", {"a\0b"s}},
      {R"(["\u001e[0]"])", {"\x1e[0]"}},
      {"[\"\x7f\"]", {"\x7f"}},
      {R"(["\ufeff\uffff\udbff\udfff"])", {"\xef\xbb\xbf\xef\xbf\xbf\xf4\x8f\xbf\xbf"}},
      {R"(["true","null","-1"])", {"true", "null", "-1"}},
  };
  for (const auto& [json, path] : kCases) EXPECT_EQ(parse_json(json), path) << json;
}

TEST(ParseName, RefusesWhatIsNoArrayOfStringsAndNaturalNumbers) {
  for (const std::string& json :
       {// no array
        ""s, " "s, "{}"s, "{\"a\":0}"s, "\"a\""s, "0"s, "null"s, "true"s, "a"s,
        // no whole array, or more than one
        "["s, "]"s, "[\"a\""s, "[\"a"s, "[\"a\",]"s, "[,]"s, "[,\"a\"]"s, "[\"a\" \"b\"]"s, "[\"a\"]]"s, "[\"a\"]x"s,
        "[\"a\"][\"b\"]"s, "[\"a\"],0"s, "[\"a\"]\x1e[\"b\"]"s, "[\"a\",,\"b\"]"s, "[\"a\":0]"s,
        // numbers
        "[-0]"s, "[-1]"s, "[-]"s, "[+1]"s, "[01]"s, "[00]"s, "[007]"s, "[1.0]"s, "[0.0]"s, "[1.]"s, "[.5]"s, "[1e3]"s,
        "[1E3]"s, "[1e0]"s, "[0e0]"s, "[1e-3]"s, "[1e]"s, "[1e999]"s, "[-1e999]"s, "[0x10]"s, "[1_000]"s,
        "[18446744073709551616]"s, "[99999999999999999999]"s, "[" + std::string(1000, '9') + "]",
        "[-9223372036854775808]"s, "[NaN]"s, "[Infinity]"s, "[1 2]"s,
        // other elements
        "[true]"s, "[false]"s, "[null]"s, "[[]]"s, "[[0]]"s, "[{}]"s, "[\"a\",{\"b\":1}]"s, "[\"a\",[0]]"s,
        "[undefined]"s, "[\"a\",true]"s, "[0,null]"s, "[True]"s,
        // strings
        "['a']"s, "[a]"s, "[\"\\x41\"]"s, "[\"\\u12\"]"s, "[\"\\u12g4\"]"s, "[\"\\U0041\"]"s, "[\"\\\"]"s, "[\"\\a\"]"s,
        "[\"\\0\"]"s, "[\"a\tb\"]"s, "[\"\x01\"]"s, "[\"\x1f\"]"s,
        // halves of surrogate pairs
        "[\"\\ud800\"]"s, "[\"\\udfff\"]"s, "[\"\\ud800x\"]"s, "[\"\\ud800\\n\"]"s, "[\"\\ud800\\u0041\"]"s,
        "[\"\\ud800\\ud800\"]"s, "[\"\\ude00\\ud83d\"]"s,
        // white space that is none of JSON's, comments, byte order marks, NUL
        "[\v0]"s, "[\f0]"s,
        "[\xc2\xa0"
        "0]"s,
        "[0]\f"s, "\f[0]"s, "[/**/0]"s, "[0]//"s, "#\n"s.substr(0, 1) + "[0]", "\xef\xbb\xbf[0]"s,
        "[\xef\xbb\xbf"
        "0]"s,
        "\0[0]"s, "[0]\0"s, "[0\0]"s, "[\"a\0b\"]"s, "[\"a\"]\0[\"b\"]"s}) {
    EXPECT_EQ(caught([&] { parse_json(json); }), failure(ErrorCode::kNameJson, 100)) << printable(json);
  }
}

TEST(ParseName, RefusesAnEmptyArray) {
  for (const char* json : {"[]", "[ ]", " [\t] "}) {
    EXPECT_EQ(caught([&] { parse_json(json); }), failure(ErrorCode::kNameEmptyPath, 100)) << json;
  }
}

TEST(ParseName, RefusesNewlinesInStructuredNames) {
  for (const std::string& json : {"[0]\n"s, "[0]\r"s, "\n[0]"s, "[0,\n1]"s, "[\"a\nb\"]"s, "[\"a\rb\"]"s, "\r\n"s}) {
    EXPECT_EQ(caught([&] { parse_json(json); }), failure(ErrorCode::kNameNewline, 100)) << printable(json);
  }
}

TEST(ParseName, RefusesBytesThatAreNotUtf8) {
  EXPECT_EQ(caught([] { parse_name("ab\xff", 100); }), failure(ErrorCode::kNameUtf8, 102));
  EXPECT_EQ(caught([] { parse_name("\xed\xa0\x80", 100); }), failure(ErrorCode::kNameUtf8, 100));
  EXPECT_EQ(caught([] { parse_json("[\"\xc0\x80\"]"); }), failure(ErrorCode::kNameUtf8, 103));
  EXPECT_EQ(caught([] { parse_json("[0]\xff"); }), failure(ErrorCode::kNameUtf8, 104));
}

TEST(ParseName, DeepNestingIsRefusedAtItsSecondLevel) {
  for (const std::string& unit : {"["s, "[0,"s, "[{\"a\":"s, "{\"a\":["s}) {
    std::string json;
    while (json.size() < 60'000) json += unit;
    EXPECT_EQ(caught([&] { parse_json(json); }), failure(ErrorCode::kNameJson, 100)) << unit;
  }
}

TEST(ParseName, LongPaths) {
  std::string json = "[0";
  Path expected = {0_th};
  while (json.size() + 2 < 65'000) {
    json += ",0";
    expected.emplace_back(0_th);
  }
  EXPECT_EQ(parse_json(json + "]"), expected);
}

TEST(SpellName, PlainForOneString) {
  EXPECT_EQ(serialize_name({"layers.0.weight"}), "layers.0.weight");
  EXPECT_EQ(serialize_name({"\xc3\xa4 \n\"\\"}), "\xc3\xa4 \n\"\\");
  EXPECT_EQ(serialize_name({"[0]"}), "[0]");
  EXPECT_EQ(serialize_name({"a\x1e"}), "a\x1e");
}

TEST(SpellName, CompactAsciiForTheRest) {
  const std::vector<std::pair<Path, std::string>> kCases = {
      {{"layers", 0_th, "weight"}, R"(["layers",0,"weight"])"},
      {{0_th}, "[0]"},
      {{18446744073709551615_th, "a"}, R"([18446744073709551615,"a"])"},
      {{"a", ""}, R"(["a",""])"},
      {{"\x1e", "/"}, R"(["\u001e","/"])"},
      {{"a", "\"\\\b\f\n\r\t"}, R"(["a","\"\\\b\f\n\r\t"])"},
      {{"a", "\0\x1f \x7e\x7f"s}, R"(["a","\u0000\u001f ~\u007f"])"},
      {{"a", "\xc3\xbc\xe2\x82\xac\xef\xbf\xbf"}, R"(["a","\u00fc\u20ac\uffff"])"},
      {{"a", "\xf0\x9f\x98\x80"}, R"(["a","\ud83d\ude00"])"},
  };
  for (const auto& [path, json] : kCases) EXPECT_EQ(serialize_name(path), kStructuredNameMark + json);
}

TEST(SpellName, RefusesWhatCannotBeWritten) {
  EXPECT_EQ(caught([] { serialize_name({}); }), failure(ErrorCode::kNameUnwritable));
  EXPECT_EQ(caught([] { serialize_name({""}); }), failure(ErrorCode::kNameUnwritable));
  EXPECT_EQ(caught([] { serialize_name({"\x1e[0]"}); }), failure(ErrorCode::kNameUnwritable));
  EXPECT_EQ(caught([] { serialize_name({"\xff"}); }), failure(ErrorCode::kNameUtf8));
  EXPECT_EQ(caught([] { serialize_name({"a", "\xff"}); }), failure(ErrorCode::kNameUtf8));
  EXPECT_EQ(caught([] { serialize_name({"a", "\xed\xa0\x80"}); }), failure(ErrorCode::kNameUtf8));
  EXPECT_EQ(caught([] { serialize_name({"a", "\xe2\x82"}); }), failure(ErrorCode::kNameUtf8));
}

TEST(SpellName, IsReadBack) {
  std::mt19937_64 random(1);
  const std::vector<std::string> kPieces = {"a",
                                            "\"",
                                            "\\",
                                            "\n",
                                            "\r",
                                            "\0"s,
                                            "\x1e",
                                            "\x7f",
                                            " ",
                                            "[",
                                            "]",
                                            ",",
                                            "\xc2\x80",
                                            "\xe2\x80\xa8",
                                            "\xef\xbf\xbf",
                                            "\xf0\x90\x80\x80",
                                            "\xf4\x8f\xbf\xbf"};
  for (int round = 0; round < 3000; ++round) {
    Path path;
    for (std::uint64_t i = 0; i <= random() % 4; ++i) {
      if (random() % 3 == 0) {
        path.emplace_back(random() >> random() % 64);
        continue;
      }
      std::string text;
      for (std::uint64_t k = 0; k < random() % 5; ++k) text += kPieces[random() % kPieces.size()];
      path.emplace_back(text);
    }
    const auto* single = path.size() == 1 ? std::get_if<std::string>(path.data()) : nullptr;
    if (single != nullptr && (single->empty() || single->front() == kStructuredNameMark)) continue;
    const std::string spelled = serialize_name(path);
    ASSERT_EQ(parse_name(spelled), path) << printable(spelled);
    if (single != nullptr) continue;
    for (const char c : spelled.substr(1)) ASSERT_TRUE(c >= 0x20 && c <= 0x7e) << printable(spelled);
  }
}

TEST(DisplayPath, JoinsElements) {
  EXPECT_EQ(display_path({"w"}), "w");
  EXPECT_EQ(display_path({"layers", 0_th, "weight"}), "layers[0].weight");
  EXPECT_EQ(display_path({0_th, 12_th}), "[0][12]");
  EXPECT_EQ(display_path({0_th, "a", "b"}), "[0].a.b");
}

}  // namespace
}  // namespace tzmark
