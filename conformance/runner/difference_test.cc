// Tests of the comparison of canonical JSON.
#include "runner/difference.h"

#include <gtest/gtest.h>

namespace tzmark::conformance {
namespace {

const char* const kDocument = R"({"data_version": 2, "layout": "v2", "encrypted": false, "tensors": [
  {"path": ["a", 0], "shape": [2, 3], "sha256": "ab", "module_index": 0},
  {"path": ["a", 1], "shape": [], "sha256": null, "module_index": 0}]})";

// The difference after one JSON patch operation on the document that the adapter printed.
std::optional<Difference> after(const std::string& patch, const std::set<std::string>& may_omit = {}) {
  const Json expected = Json::parse(kDocument);
  return first_difference(expected, expected.patch(Json::parse("[" + patch + "]")), may_omit);
}

TEST(FirstDifference, EqualDocumentsHaveNone) {
  EXPECT_FALSE(first_difference(Json::parse(kDocument), Json::parse(kDocument), {}));
}

TEST(FirstDifference, OrderOfMembersDoesNotMatter) {
  EXPECT_FALSE(first_difference(Json::parse(R"({"a": 1, "b": [2]})"), Json::parse(R"({"b": [2], "a": 1})"), {}));
}

TEST(FirstDifference, NamesTheField) {
  const auto difference = after(R"({"op": "replace", "path": "/tensors/1/path/1", "value": 7})");
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->pointer, "/tensors/1/path/1");
  EXPECT_EQ(*difference->expected, Json(1));
  EXPECT_EQ(*difference->got, Json(7));
}

TEST(FirstDifference, IsTheFirstInTheOrderOfTheExpectedDocument) {
  const Json expected = Json::parse(R"({"b": 1, "a": 1})");
  EXPECT_EQ(first_difference(expected, Json::parse(R"({"a": 2, "b": 2})"), {})->pointer, "/b");
}

TEST(FirstDifference, MissingField) {
  const auto difference = after(R"({"op": "remove", "path": "/tensors/0/sha256"})");
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->pointer, "/tensors/0/sha256");
  EXPECT_TRUE(difference->expected);
  EXPECT_FALSE(difference->got);
}

TEST(FirstDifference, UnexpectedField) {
  const auto difference = after(R"({"op": "add", "path": "/tensors/0/colour", "value": "red"})");
  ASSERT_TRUE(difference);
  EXPECT_EQ(difference->pointer, "/tensors/0/colour");
  EXPECT_FALSE(difference->expected);
}

TEST(FirstDifference, MissingAndUnexpectedTensor) {
  EXPECT_EQ(after(R"({"op": "remove", "path": "/tensors/1"})")->pointer, "/tensors/1");
  const auto difference = after(R"({"op": "add", "path": "/tensors/-", "value": {}})");
  EXPECT_EQ(difference->pointer, "/tensors/2");
  EXPECT_FALSE(difference->expected);
}

TEST(FirstDifference, OptionalFieldsMayBeMissingButNotWrong) {
  EXPECT_FALSE(after(R"({"op": "remove", "path": "/tensors/0/module_index"})", {"module_index"}));
  EXPECT_TRUE(after(R"({"op": "remove", "path": "/tensors/0/module_index"})", {"layout"}));
  EXPECT_TRUE(after(R"({"op": "replace", "path": "/tensors/0/module_index", "value": 1})", {"module_index"}));
}

TEST(FirstDifference, TypesAreNotConverted) {
  EXPECT_TRUE(after(R"({"op": "replace", "path": "/data_version", "value": 2.0})"));
  EXPECT_TRUE(after(R"({"op": "replace", "path": "/data_version", "value": "2"})"));
  EXPECT_TRUE(after(R"({"op": "replace", "path": "/encrypted", "value": 0})"));
  EXPECT_TRUE(after(R"({"op": "replace", "path": "/tensors/1/sha256", "value": ""})"));
  EXPECT_TRUE(after(R"({"op": "replace", "path": "/tensors/1/shape", "value": null})"));
}

TEST(FirstDifference, LargeIntegersAreExact) {
  const Json large = Json::parse("18446744073709551615");
  EXPECT_FALSE(first_difference(large, large, {}));
  EXPECT_TRUE(first_difference(large, Json::parse("-1"), {}));
  EXPECT_TRUE(first_difference(large, Json::parse("18446744073709551614"), {}));
  EXPECT_TRUE(first_difference(large, Json::parse("18446744073709551616"), {}));
}

TEST(FirstDifference, PointersAreEscaped) {
  EXPECT_EQ(first_difference(Json::parse(R"({"a/b~c": 1})"), Json::object(), {})->pointer, "/a~1b~0c");
}

}  // namespace
}  // namespace tzmark::conformance
