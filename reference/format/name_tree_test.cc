// Tests of the tree of names, against hand-made cases and against a check of every pair.
#include "format/name_tree.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "bytes/utf8.h"
#include "testing/caught.h"

namespace tzmark {
namespace {

using test::caught;
using test::failure;

// Adds names and returns the tree's verdict on each: no error, or the code of the error that ended it.
std::vector<std::optional<ErrorCode>> verdicts(const std::vector<std::string>& names) {
  NameTree tree;
  std::vector<std::optional<ErrorCode>> result;
  for (const std::string& name : names) {
    try {
      tree.add(name, 0);
      result.emplace_back();
    } catch (const Error& error) {
      result.emplace_back(error.code());
      break;
    }
  }
  return result;
}

std::optional<ErrorCode> last_verdict(const std::vector<std::string>& names) { return verdicts(names).back(); }

std::string structured(const std::string& json) { return kStructuredNameMark + json; }

TEST(NameTree, TakesWhatIsATree) {
  const std::vector<std::string> names = {"a",
                                          "b",
                                          "a.b",
                                          "",
                                          structured(R"(["c",0])"),
                                          structured(R"(["c",2])"),
                                          structured(R"(["d","0"])"),
                                          structured(R"(["d","1","x"])"),
                                          structured(R"(["d","1","y"])"),
                                          structured(R"(["e"])"),
                                          structured(R"(["f","a"])")};
  EXPECT_EQ(verdicts(names), std::vector<std::optional<ErrorCode>>(names.size()));
}

TEST(NameTree, ListPositionsMayStandAtTheTop) {
  EXPECT_EQ(last_verdict({structured("[0]"), structured("[1,\"a\"]"), structured("[1,\"b\"]")}), std::nullopt);
}

TEST(NameTree, Duplicates) {
  EXPECT_EQ(last_verdict({"a", "b", "a"}), ErrorCode::kNameDuplicate);
  EXPECT_EQ(last_verdict({"", ""}), ErrorCode::kNameDuplicate);
  EXPECT_EQ(last_verdict({"a", structured(R"(["a"])")}), ErrorCode::kNameDuplicate);
  EXPECT_EQ(last_verdict({structured(R"(["a",0])"), structured(R"([ "\u0061" , 0 ])")}), ErrorCode::kNameDuplicate);
  EXPECT_EQ(last_verdict({structured(R"(["\ud83d\ude00"])"), "\xf0\x9f\x98\x80"}), ErrorCode::kNameDuplicate);
}

TEST(NameTree, PrefixesInBothOrders) {
  for (const auto& [outer, inner] : std::vector<std::pair<std::string, std::string>>{
           {"a", structured(R"(["a","b"])")},
           {"a", structured(R"(["a",0])")},
           {structured(R"(["a"])"), structured(R"(["a","b","c","d"])")},
           {structured("[0]"), structured("[0,0]")},
           {structured(R"(["a",1,"b"])"), structured(R"(["a",1,"b",""])")}}) {
    EXPECT_EQ(last_verdict({outer, inner}), ErrorCode::kNamePrefix) << printable(inner);
    EXPECT_EQ(last_verdict({inner, outer}), ErrorCode::kNamePrefix) << printable(outer);
  }
}

TEST(NameTree, TextsAreNotPrefixes) {
  EXPECT_EQ(last_verdict({"a", "ab", structured(R"(["abc","a"])"), structured(R"(["abc","ab"])")}), std::nullopt);
}

TEST(NameTree, MixedSiblings) {
  EXPECT_EQ(last_verdict({"a", structured("[0]")}), ErrorCode::kNameMixedSiblings);
  EXPECT_EQ(last_verdict({structured("[0]"), "a"}), ErrorCode::kNameMixedSiblings);
  EXPECT_EQ(last_verdict({structured(R"(["a",0])"), structured(R"(["a","0"])")}), ErrorCode::kNameMixedSiblings);
  EXPECT_EQ(last_verdict({structured(R"(["a","b",0,"c"])"), structured(R"(["a",1])")}), ErrorCode::kNameMixedSiblings);
  EXPECT_EQ(last_verdict({structured(R"(["a","0"])"), structured(R"(["b",0])")}), std::nullopt);
}

TEST(NameTree, SaysWhere) {
  NameTree tree;
  tree.add("a", 75);
  EXPECT_EQ(caught([&] { tree.add("a", 175); }), failure(ErrorCode::kNameDuplicate, 175));
  const std::string broken = structured("[");
  EXPECT_EQ(caught([&] { tree.add(broken, 275); }), failure(ErrorCode::kNameJson, 275));
}

TEST(NameTree, HundredThousandNames) {
  std::vector<std::string> names;
  for (int i = 0; i < 50'000; ++i) {
    names.push_back(fmt::format("plain.{}", i));
    names.push_back(structured(fmt::format(R"(["layers",{},"\u{:04x}"])", i / 4, 0x100 + i % 4)));
  }
  NameTree tree;
  for (const std::string& name : names) tree.add(name, 0);
  // Growing has lost none of them.
  for (std::size_t i = 0; i < names.size(); i += 97) {
    EXPECT_EQ(caught([&] { tree.add(names[i], i); }), failure(ErrorCode::kNameDuplicate, i)) << printable(names[i]);
  }
  tree.add("one.more", 0);
}

TEST(NameTree, LongPaths) {
  std::string json = R"(["a")";
  while (json.size() < 65'000) json += ",0,\"\"";
  const std::string longest = structured(json + "]"), longer = structured(json + ",0]");
  const std::string sibling = structured(json + ",0,\"b\"]");
  EXPECT_EQ(last_verdict({longest, longest}), ErrorCode::kNameDuplicate);
  EXPECT_EQ(last_verdict({longest, longer}), ErrorCode::kNamePrefix);
  EXPECT_EQ(last_verdict({sibling, longest}), ErrorCode::kNamePrefix);
  EXPECT_EQ(last_verdict({longer, structured(json + ",1]")}), std::nullopt);
}

// What two paths of one file do to each other, by definition.
std::optional<ErrorCode> conflict(const Path& a, const Path& b) {
  std::size_t common = 0;
  while (common < a.size() && common < b.size() && a[common] == b[common]) ++common;
  if (common == a.size() && common == b.size()) return ErrorCode::kNameDuplicate;
  if (common == a.size() || common == b.size()) return ErrorCode::kNamePrefix;
  if (a[common].index() != b[common].index()) return ErrorCode::kNameMixedSiblings;
  return std::nullopt;
}

TEST(NameTree, AgreesWithACheckOfEveryPair) {
  std::mt19937_64 random(1);
  const std::vector<std::string> kElements = {"\"a\"", "\"b\"", "\"\\u0062\"", "\"\"", "0", "1", "\"0\""};
  std::set<std::optional<ErrorCode>> seen;
  for (int round = 0; round < 20'000; ++round) {
    // Kinds of elements by depth, so that trees grow before something is wrong with them.
    const std::uint64_t integers_at = random();
    std::vector<std::string> names;
    for (int i = 0; i < 12; ++i) {
      std::string json;
      for (std::uint64_t depth = 0; depth <= random() % 4; ++depth) {
        const bool integer = (integers_at >> depth & 1) != 0 && random() % 16 != 0;
        json += (depth == 0 ? "" : ",") + kElements[integer ? 4 + random() % 2 : random() % kElements.size()];
      }
      names.push_back(structured("[" + json + "]"));
    }
    const auto actual = verdicts(names);
    for (std::size_t i = 0; i < actual.size(); ++i) {
      std::set<ErrorCode> expected;
      for (std::size_t k = 0; k < i; ++k) {
        if (const auto code = conflict(parse_name(names[k]), parse_name(names[i]))) expected.insert(*code);
      }
      ASSERT_EQ(actual[i].has_value(), !expected.empty()) << printable(names[i]);
      if (actual[i]) {
        ASSERT_TRUE(expected.contains(*actual[i])) << printable(names[i]);
      }
      seen.insert(actual[i]);
    }
  }
  EXPECT_EQ(seen.size(), 4U);
}

}  // namespace
}  // namespace tzmark
