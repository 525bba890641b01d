// Tests of the comparison of two results.
#include "runner/result_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runner/errors.h"
#include "runner/report.h"

namespace tzmark::conformance {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Json result_of(std::initializer_list<std::pair<const char*, const char*>> outcomes) {
  Json cases = Json::array();
  for (const auto& [id, outcome] : outcomes) {
    // Cases a1 and a2 are about rule A.
    Json steps = Json::array();
    for (const char* mode : {"file", "pipe", "offset"}) {
      steps.push_back({{"command", "decode"}, {"shape", mode}, {"outcome", outcome}});
    }
    cases.push_back(
        {{"id", id}, {"outcome", outcome}, {"reason", nullptr}, {"rules", {std::string(1, id[0])}}, {"steps", steps}});
  }
  return {{"schema", "tzmark-conformance"},
          {"schema_version", kResultVersion},
          {"adapter", {{"profile", Json::object()}}},
          {"corpus", Json::object()},
          {"options", Json::object()},
          {"shapes", {{{"shape", "file"}}, {{"shape", "pipe"}}}},
          {"cases", cases}};
}

std::vector<std::string> ids_of(const std::vector<ChangedCase>& changed) {
  std::vector<std::string> ids;
  for (const ChangedCase& one : changed) ids.push_back(one.id);
  return ids;
}

ResultDiff diff_of(const Json& before, const Json& after) { return diff_results(before, "old", after, "new"); }

TEST(ResultDiff, OfTheSameIsEmpty) {
  const Json result = result_of({{"a1", "pass"}, {"b1", "hang"}, {"c1", "skipped"}});
  EXPECT_EQ(text_of(diff_of(result, result)), "0 cases lost, 0 gained; 0 rules lost, 0 gained\n");
}

TEST(ResultDiff, APassThatIsNoneIsLost) {
  const ResultDiff diff = diff_of(
      result_of({{"a1", "pass"}, {"a2", "pass"}, {"b1", "pass"}, {"c1", "implementation-defined"}, {"d1", "pass"}}),
      result_of({{"a1", "pass"}, {"a2", "crash"}, {"b1", "skipped"}, {"c1", "pass"}}));
  EXPECT_THAT(ids_of(diff.lost), ElementsAre("a2", "b1", "d1"));
  EXPECT_THAT(diff.rules_lost, ElementsAre("a", "b", "d"));
  EXPECT_THAT(text_of(diff), HasSubstr("    d1: pass, now not asked (d)\n"));
  EXPECT_THAT(text_of(diff), EndsWith("\nrules lost: a b d\n3 cases lost, 0 gained; 3 rules lost, 0 gained\n"));
}

TEST(ResultDiff, ARuleIsGainedByItsLastCase) {
  const Json before = result_of({{"a1", "crash"}, {"a2", "hang"}, {"b1", "skipped"}});
  const ResultDiff first = diff_of(before, result_of({{"a1", "pass"}, {"a2", "crash"}, {"b1", "skipped"}}));
  EXPECT_THAT(ids_of(first.gained), ElementsAre("a1"));
  EXPECT_THAT(ids_of(first.others), ElementsAre("a2"));
  EXPECT_THAT(first.rules_gained, IsEmpty());
  const ResultDiff both = diff_of(before, result_of({{"a1", "pass"}, {"a2", "pass"}, {"b1", "pass"}, {"c1", "hang"}}));
  EXPECT_THAT(both.rules_gained, ElementsAre("a", "b"));
  EXPECT_THAT(ids_of(both.others), ElementsAre("c1")) << "a new case that fails is no loss";
  EXPECT_THAT(both.lost, IsEmpty());
}

// A case passes by the commands that are left. What a run samples besides its input modes, another one may not.
TEST(ResultDiff, ACommandThatIsNotAskedAnyMoreIsLost) {
  const Json before = result_of({{"a1", "pass"}});
  Json after = before;
  after["cases"][0]["steps"].erase(2);
  EXPECT_THAT(diff_of(before, after).lost, IsEmpty());
  after["cases"][0]["steps"].erase(1);
  const ResultDiff diff = diff_of(before, after);
  EXPECT_THAT(text_of(diff), HasSubstr("    a1: pass of decode, pipe, now not asked (a)\n"));
  EXPECT_THAT(annotation_lines(diff), HasSubstr("::error title=1 cases and 0 rules lost::"));
  EXPECT_EQ(annotation_lines(diff_of(before, before)), "");
  after["adapter"]["profile"]["commands"] = {"verify"};
  EXPECT_THAT(diff_of(before, after).notes, ElementsAre("the adapter's commands was null, and is [\"verify\"]"));
}

TEST(ResultDiff, SaysWhatElseIsDifferent) {
  Json before = result_of({{"a1", "pass"}}), after = before;
  before["corpus"]["manifest_sha256"] = "1";
  after["corpus"]["manifest_sha256"] = "2";
  EXPECT_THAT(diff_of(before, after).notes, ElementsAre("the corpus was \"1\", and is \"2\""));
}

TEST(ResultDiff, RefusesWhatIsNoResult) {
  const Json good = result_of({{"a1", "pass"}});
  const auto refusal = [&](const Json& bad) -> std::string {
    try {
      diff_of(good, bad);
    } catch (const EnvironmentError& error) {
      return error.what();
    }
    return "accepted";
  };
  Json bad = good;
  bad["schema"] = "tzmark-bench";
  EXPECT_EQ(refusal(bad), "new: not a result of tzmark conform --json");
  bad = good;
  bad["schema_version"] = kResultVersion + 1;
  EXPECT_THAT(refusal(bad), HasSubstr("new: its schema_version is"));
  bad = good;
  bad["cases"].push_back(bad["cases"][0]);
  EXPECT_EQ(refusal(bad), "new: it has the case \"a1\" twice");
  bad = good;
  bad["cases"] = Json::array();
  EXPECT_EQ(refusal(bad), "new: it has no case");
  bad["cases"] = 3;
  EXPECT_THAT(refusal(bad), HasSubstr("new: "));
  EXPECT_THAT(refusal(Json::array()), HasSubstr("new: "));
  for (const char* name : {"adapter", "corpus", "options"}) {
    bad = good;
    bad[name] = {1};
    EXPECT_THAT(refusal(bad), HasSubstr("new: its")) << name;
  }
  bad = good;
  bad["cases"][0].erase("rules");
  EXPECT_THAT(refusal(bad), HasSubstr("new: "));
}

}  // namespace
}  // namespace tzmark::conformance
