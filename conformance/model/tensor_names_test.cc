// Names of tensors: the list behind a structured name.
#include "model/tensor_names.h"

#include <gtest/gtest.h>

#include <string>

namespace tzmark::conformance::model {
namespace {

ParsedName parse_list(const std::string& list) { return parse_name("\x1e" + list, 2); }

TEST(Names, ListsHoldStringsAndPositions) {
  const ParsedName name = parse_list(R"(["a", 7, "b"])");
  EXPECT_EQ(name.broken_rule, "");
  ASSERT_TRUE(name.path);
  EXPECT_EQ(*name.path, (Path{std::string("a"), std::uint64_t{7}, std::string("b")}));
}

TEST(Names, ListsHoldNothingElse) {
  for (const char* const other : {"null", "true", "-1", "0.5", "[\"a\"]", "{\"a\": 1}", "[]", "{}"}) {
    const ParsedName name = parse_list(std::string("[\"a\", ") + other + "]");
    EXPECT_EQ(name.broken_rule, "TZR-NAM-002") << other;
    EXPECT_FALSE(name.path) << other;
  }
  for (const char* const broken : {"[", "[]]", "[1,]", "{\"a\": 1}", "1", "", "[1e999]"}) {
    EXPECT_EQ(parse_list(broken).broken_rule, "TZR-NAM-002") << broken;
  }
  EXPECT_EQ(parse_list("[]").broken_rule, "TZR-NAM-003");
}

// A time that is quadratic in the length of the list would be minutes.
TEST(Names, LongListsOfObjectsAreReadInLinearTime) {
  std::string list = "[1";
  for (int i = 0; i < 300'000; ++i) list += ",1";
  for (int i = 0; i < 300'000; ++i) list += ",{}";
  EXPECT_EQ(parse_list(list + "]").broken_rule, "TZR-NAM-002");
}

}  // namespace
}  // namespace tzmark::conformance::model
