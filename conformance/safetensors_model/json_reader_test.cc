// Tests of the JSON reader: what is JSON, and where what is not.
#include "safetensors_model/json_reader.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tzmark::conformance::safetensors {
namespace {

// Where a text is no JSON; nothing if it is.
std::optional<std::size_t> wrong_at(std::string_view text) {
  JsonReader json(text);
  try {
    json.any_value();
    json.skip_space();
    if (!json.is_at_end()) return json.at();
  } catch (const NotJson& error) {
    return error.offset;
  }
  return std::nullopt;
}

TEST(JsonReader, TakesWhatIsJson) {
  for (const std::string_view text :
       {"{}", "[]", "null", "true", "false", "0", "-0", "-1.5e+30", "0.1E-2", "1e-400", R"("")",
        R"("\"\\\/\b\f\n\r\t")", R"("\u00e9\ud83d\uDE00")", " [ 1 , [ ] , { \"a\" : { } } ] \n", R"({"a":1,"a":2})"}) {
    EXPECT_EQ(wrong_at(text), std::nullopt) << text;
  }
}

TEST(JsonReader, SaysWhereATextIsNoJson) {
  const std::vector<std::pair<std::string_view, std::size_t>> texts = {
      {"", 0},         {"[", 1},        {"{", 1},           {"[1", 2},          {"[1,]", 3},  {"{\"a\"}", 4},
      {"{\"a\":}", 5}, {"{a:1}", 1},    {"[1 2]", 3},       {"nul", 0},         {"NaN", 0},   {"01", 1},
      {"-", 1},        {"1.", 2},       {"1e", 2},          {"1e400", 5},       {"\"", 1},    {"\"\x01\"", 1},
      {R"("\x")", 2},  {R"("\u12)", 5}, {R"("\ud800")", 7}, {R"("\udc00")", 7}, {"[] []", 3}, {"'a'", 0}};
  for (const auto& [text, offset] : texts) EXPECT_EQ(wrong_at(text), offset) << text;
}

TEST(JsonReader, TakesTextWithoutItsEscapes) {
  JsonReader json(R"("a\u00e9\ud83d\ude00\n")");
  EXPECT_EQ(json.string(), "a\xc3\xa9\xf0\x9f\x98\x80\n");
}

TEST(JsonReader, NestsNoDeeperThanItsLimit) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(wrong_at(nested(127)), std::nullopt);
  EXPECT_EQ(wrong_at(nested(128)), 127U);
  EXPECT_EQ(wrong_at(nested(1'000'000)), 127U);
}

TEST(JsonReader, TellsRepeatedKeys) {
  std::vector<std::size_t> places;
  JsonReader json(R"({"a":{"b":1,"\u0062":2},"a":[{"a":0}]})");
  json.any_value([&](std::size_t at) { places.push_back(at); });
  EXPECT_EQ(places, (std::vector<std::size_t>{12, 24}));
}

}  // namespace
}  // namespace tzmark::conformance::safetensors
