// Tests of how the JSON of an adapter is read and shown.
#include "runner/json.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

TEST(ParseUntrustedJson, KeepsDocumentOrder) {
  EXPECT_EQ(parse_untrusted_json(R"({"b": 1, "a": [2]})").dump(), R"({"b":1,"a":[2]})");
}

TEST(ParseUntrustedJson, RefusesWhatIsNotOneDocument) {
  for (const char* text : {"", "{", "{} {}", "nonsense", "{'a': 1}", "[1,]"}) {
    EXPECT_THROW(parse_untrusted_json(text), std::runtime_error) << text;
  }
  const std::string hides = std::string("{}") + '\0' + "and more";
  EXPECT_THROW(parse_untrusted_json(hides), std::runtime_error);
  EXPECT_THROW(parse_json(hides, "file"), EnvironmentError);
}

TEST(ParseUntrustedJson, LimitsDepth) {
  const auto nested = [](int depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_untrusted_json(nested(kJsonDepthMax)));
  EXPECT_THROW(parse_untrusted_json(nested(kJsonDepthMax + 1)), std::runtime_error);
  EXPECT_THROW(parse_untrusted_json(std::string(5'000'000, '[')), std::runtime_error);
}

TEST(ParseUntrustedJson, LimitsMembersOfEachObject) {
  const auto members = [](std::size_t count) {
    std::string text = "{";
    for (std::size_t i = 0; i < count; ++i) text += (i ? ",\"" : "\"") + std::to_string(i) + "\":{\"a\":1}";
    return text + "}";
  };
  EXPECT_NO_THROW(parse_untrusted_json(members(kJsonMembersMax)));
  EXPECT_THROW(parse_untrusted_json(members(kJsonMembersMax + 1)), std::runtime_error);
}

// In quadratic time this would take hours: 0.3 MB took four seconds.
TEST(ParseUntrustedJson, TakesTimeThatGrowsWithTheText) {
  std::string text = "[{}";
  for (int i = 1; i < 1'000'000; ++i) text += ",{}";
  EXPECT_EQ(parse_untrusted_json(text + "]").size(), 1'000'000u);
}

TEST(ParseUntrustedJson, LimitsValues) {
  const auto values = [](std::size_t count) {
    std::string text = "[0";
    for (std::size_t i = 2; i < count; ++i) text += i % 2 ? ",0" : ",[]";
    return text + "]";
  };
  EXPECT_NO_THROW(parse_untrusted_json(values(kJsonValuesMax)));
  EXPECT_THROW(parse_untrusted_json(values(kJsonValuesMax + 1)), std::runtime_error);
}

TEST(OneLine, CutsBetweenCharacters) {
  EXPECT_EQ(one_line("a\nb\tc", 10), "a b c");
  EXPECT_EQ(one_line("a\xc2\x9c\xc2\xa0\x7f", 10), "a  \xc2\xa0 ") << "U+009C is a control";
  EXPECT_EQ(one_line("12345", 5), "12345");
  EXPECT_EQ(one_line("123456", 5), "12345...");
  EXPECT_EQ(one_line("1\xc3\xa9\xc3\xa9", 4), "1\xc3\xa9...");
}

TEST(CompactDump, ReplacesWhatIsNotUtf8) { EXPECT_EQ(compact_dump(Json("a\xff"), 100), "\"a\xef\xbf\xbd\""); }

}  // namespace
}  // namespace tzmark::conformance
