// Tests of the reports of a run: table, JSON, JUnit XML, TAP, badge, summary, annotations.
// commands/conform_reports_test.py tests the schema of the JSON.
#include "runner/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <tinyxml2.h>

#include <algorithm>

#include "testing/test_environment.h"

namespace tzmark::conformance {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// One run with a pass, two failures and a skip, made without running anything but `capabilities`.
class ReportTest : public ::testing::Test {
 protected:
  ReportTest() : adapter_(fake_adapter(), kNotCancelled) {
    run_.manifest = &manifest_;
    run_.adapter = &adapter_;
    add("passes", "v1", {}, Outcome::kPass, "");
    add("is-wrong", "v1", {"meta"}, Outcome::kWrongData, "decode: /data_version: expected 1, got 2");
    add("crashes", "v4", {"meta", "encryption"}, Outcome::kCrash, "decode: exit \x01 & <status> 3 \xff");
    // U+FFFE and U+FFFF are in UTF-8, but not in XML.
    run_.results.back().steps[0].process.stderr_tail += "\xef\xbf\xbe\xef\xbf\xbf";
    add("left-out", "v4", {"encryption"}, Outcome::kSkipped, "its profile lacks encryption");
  }

  void add(const std::string& id, const std::string& layout, std::vector<std::string> features, Outcome outcome,
           std::string reason) {
    CaseResult result;
    result.item.id = id;
    result.item.layout = layout;
    result.item.features = std::move(features);
    result.item.rules = {"TZR-HDR-002"};
    result.item.why = "Why " + id + ".";
    result.outcome = outcome;
    Step step;
    step.outcome = outcome;
    step.reason = reason.substr(reason.find(": ") + (reason.empty() ? 1 : 2));
    result.reason = std::move(reason);
    step.process.elapsed = std::chrono::milliseconds(1500);
    step.process.stderr_tail = "tail of \x02 " + id;
    if (outcome != Outcome::kSkipped) result.steps.push_back(step);
    run_.results.push_back(std::move(result));
  }

  Manifest manifest_;
  Adapter adapter_;
  SuiteRun run_;
};

TEST_F(ReportTest, TableCountsByLayoutAndFeature) {
  const std::string text = text_report(run_);
  EXPECT_THAT(text, HasSubstr("feature      v1       v4      all\n"
                              "plain       1/1        -      1/1\n"
                              "encryption    -  0/1 +1s  0/1 +1s\n"
                              "meta        0/1      0/1      0/2\n"
                              "all         1/2  0/1 +1s  1/3 +1s\n"));
  EXPECT_THAT(text, EndsWith("\n1 passed, 2 failed, 1 skipped\n"));
}

TEST_F(ReportTest, TableListsTheWorstFailureFirst) {
  const std::string text = text_report(run_);
  const auto wrong = text.find("wrong-data is-wrong (TZR-HDR-002)\n    why: Why is-wrong.\n    decode: /data_version");
  const auto crash = text.find("crash crashes (TZR-HDR-002)\n    why: Why crashes.\n    decode: exit");
  ASSERT_NE(wrong, std::string::npos);
  ASSERT_NE(crash, std::string::npos);
  EXPECT_LT(wrong, crash);
  EXPECT_THAT(text, Not(HasSubstr("passes")));
  EXPECT_THAT(text, HasSubstr("skipped 1: its profile lacks encryption"));
}

// The worst of them, the hang, does not show that the reader misses a check.
TEST_F(ReportTest, TextTellsEveryFailedCommandInOrder) {
  add("hangs", "v1", {}, Outcome::kHang, "stream: took 140000 bytes and still did not refuse");
  std::vector<Step>& steps = run_.results.back().steps;
  Step accepted;
  accepted.outcome = Outcome::kAcceptedInvalid;
  accepted.answer.kind = AnswerKind::kAccepted;
  accepted.reason = "accepted, but is invalid";
  accepted.explanation =
      Explanation{"TZR-HDR-004", 9, "feature flags is bits 8", {{9, "00 01", "flags", "bits 8", true}}};
  steps.front().command = Command::kStream;
  steps.front().explanation = accepted.explanation;
  steps.insert(steps.begin(), 2, accepted);
  steps[1].command = Command::kVerify;
  EXPECT_THAT(text_report(run_), HasSubstr("hang hangs (TZR-HDR-002)\n"
                                           "    why: Why hangs.\n"
                                           "    decode, verify: accepted, but is invalid\n"
                                           "    stream: took 140000 bytes and still did not refuse\n"
                                           "    stderr: tail of   hangs\n"
                                           "    TZR-HDR-004: feature flags is bits 8\n"
                                           "    byte 9: flags, 00 01 = bits 8\n"));
}

TEST_F(ReportTest, TextNamesTheCasesThatWereRefusedForAnotherRule) {
  EXPECT_THAT(text_report(run_), Not(HasSubstr("another rule")));
  for (const char* id : {"first", "second", "third"}) {
    add(id, "v1", {}, Outcome::kPass, "");
    run_.results.back().steps.front().answer.rejection.rule = id == std::string("third") ? "TZR-X-002" : "TZR-X-001";
    run_.results.back().steps.front().cites_other_rule = true;
  }
  EXPECT_THAT(text_report(run_), HasSubstr("refused as they should be, but for another rule: 3\n"
                                           "    TZR-X-001 instead of TZR-HDR-002: first second\n"
                                           "    TZR-X-002 instead of TZR-HDR-002: third\n"));
  EXPECT_EQ(result_document(run_)["summary"]["cites_other_rule"], 3);
  // A case that fails counts once, among the failures.
  run_.results.back().outcome = Outcome::kHang;
  EXPECT_THAT(text_report(run_), HasSubstr("but for another rule: 2\n"));
  EXPECT_EQ(result_document(run_)["summary"]["cites_other_rule"], 2);
}

TEST_F(ReportTest, JsonHoldsEveryCase) {
  const Json document = Json::parse(dump_lines(result_document(run_)));
  EXPECT_EQ(document["summary"]["passed"], 1);
  EXPECT_EQ(document["summary"]["failed"], 2);
  EXPECT_EQ(document["summary"]["skipped"], 1);
  EXPECT_EQ(document["summary"]["outcomes"]["crash"], 1);
  EXPECT_EQ(document["adapter"]["profile"]["name"], "fake");
  ASSERT_EQ(document["cases"].size(), 4u);
  EXPECT_EQ(document["cases"][1]["outcome"], "wrong-data");
  EXPECT_EQ(document["cases"][3]["steps"].size(), 0u);
  EXPECT_EQ(document["cases"][0]["reason"], nullptr);
}

TEST_F(ReportTest, TapHasALineForEachCase) {
  run_.results[1].known = "issue #7";
  run_.known_problems = {"passes: is not expected to \n pass"};
  run_.skipped_max = 0;
  EXPECT_EQ(tap_report(run_),
            "TAP version 14\n"
            "# fake 1\n"
            "1..6\n"
            "ok 1 - passes\n"
            "not ok 2 - is-wrong # todo known failure: issue \\#7\n"
            "  ---\n"
            "  outcome: \"wrong-data\"\n"
            "  layout: \"v1\"\n"
            "  rules: [\"TZR-HDR-002\"]\n"
            "  why: \"Why is-wrong.\"\n"
            "  reason: \"decode: /data_version: expected 1, got 2\"\n"
            "  ...\n"
            "not ok 3 - crashes\n"
            "  ---\n"
            "  outcome: \"crash\"\n"
            "  layout: \"v4\"\n"
            "  rules: [\"TZR-HDR-002\"]\n"
            "  why: \"Why crashes.\"\n"
            "  reason: \"decode: exit   & <status> 3 \xef\xbf\xbd\"\n"
            "  ...\n"
            "ok 4 - left-out # SKIP its profile lacks encryption\n"
            "not ok 5 - passes: is not expected to   pass\n"
            "not ok 6 - at most 0 cases are skipped\n");
  run_.results.clear();
  run_.known_problems.clear();
  EXPECT_THAT(tap_report(run_), EndsWith("1..1\nnot ok 1 - some case runs\n")) << "no case is no success";
}

TEST_F(ReportTest, BadgeSaysWhetherTheRunPasses) {
  const auto badge = [&] { return Json::parse(badge_report(run_)); };
  EXPECT_EQ(badge()["schemaVersion"], 1);
  EXPECT_EQ(badge()["message"], "1 passed, 2 failed, 1 skipped");
  EXPECT_EQ(badge()["color"], "red");
  EXPECT_EQ(badge()["isError"], true);
  run_.results[1].known = run_.results[2].known = "expected";
  EXPECT_EQ(badge()["message"], "1 passed, 0 failed, 2 known to fail, 1 skipped");
  EXPECT_EQ(badge()["color"], "green");
  run_.skipped_max = 0;
  EXPECT_EQ(badge()["color"], "red");
  run_.skipped_max.reset();
  run_.results.erase(run_.results.begin() + 1, run_.results.end());
  EXPECT_EQ(badge()["color"], "brightgreen");
  run_.selection.quick = true;
  EXPECT_EQ(badge()["color"], "green");
  EXPECT_EQ(badge()["message"], "1 passed, 0 failed of a selection");
  run_.selection.quick = false;
  run_.results.clear();
  EXPECT_EQ(badge()["color"], "red");
  EXPECT_EQ(badge()["message"], "no case ran");
}

// What an adapter prints could be a link, an image, a mention or a row of its own.
TEST_F(ReportTest, SummaryIsNoMarkupOfTheAdapter) {
  add("evil", "v1", {}, Outcome::kWrongData, "decode: ![x](http://a/b) | <img src=x> `@all` **b** \n# h");
  const std::string text = summary_report(run_);
  EXPECT_THAT(text, HasSubstr("## fake 1: does not conform\n\n1 passed, 3 failed, 1 skipped\n\n"));
  EXPECT_THAT(text, HasSubstr("| v1 | 1 | 2 | 0 | 0 |\n| v4 | 0 | 1 | 0 | 1 |\n"));
  EXPECT_THAT(text, HasSubstr("| evil | TZR-HDR-002 | wrong-data | decode&#58; &#33;&#91;x&#93;(http&#58;&#47;&#47;a"));
  EXPECT_THAT(text, HasSubstr("&#64;&#8203;all")) << "no mention, and no address of mail";
  const std::string row = text.substr(text.find("| evil"));
  EXPECT_EQ(row.find_first_of("<>`@*![].:/"), row.npos);
  EXPECT_EQ(std::ranges::count(row.substr(0, row.find('\n')), '|'), 5);
}

TEST_F(ReportTest, AnnotationsAreOnePerRule) {
  run_.results[2].item.rules = {"TZR-IDX-001"};
  run_.known_problems = {"100 % wrong"};
  const std::string text = annotation_lines(run_);
  EXPECT_THAT(text, HasSubstr("::error title=tzmark conform::known failures: 100 %25 wrong\n"));
  EXPECT_THAT(text,
              HasSubstr("::error title=TZR-HDR-002%3A 1 case::is-wrong: decode: /data_version: expected 1, got 2\n"));
  EXPECT_THAT(text, HasSubstr("::error title=TZR-IDX-001%3A 1 case::crashes: decode: exit   & <status> 3 "));
  run_.known_problems.resize(5'000, "wrong");
  EXPECT_THAT(annotation_lines(run_), HasSubstr("%0Aknown failures: 4980 more differences\n"));
  EXPECT_THAT(summary_report(run_), HasSubstr("- known failures&#58; 4980 more differences\n"));
  for (int i = 0; i < 20; ++i) {
    add(fmt::format("more-{}", i), "v1", {}, Outcome::kHang, "decode: hangs");
    run_.results.back().item.rules = {fmt::format("TZR-X-{:03}", i)};
  }
  const std::string many = annotation_lines(run_);
  EXPECT_EQ(std::ranges::count(many, '\n'), 10) << "GitHub shows no more";
  EXPECT_THAT(many, EndsWith("::error title=tzmark conform::and 14 more rules with failures\n"));
}

TEST_F(ReportTest, NoTextOfAnAdapterIsACommand) {
  const std::string text = without_commands("::error::x\n##[error]x\n");
  const std::string token = text.substr(17, 32);
  EXPECT_EQ(text, "::stop-commands::" + token + "\n::error::x\n##[error]x\n::" + token + "::\n");
  EXPECT_EQ(token.find_first_not_of("0123456789abcdef"), token.npos);
  EXPECT_NE(without_commands(""), without_commands("")) << "the token cannot be guessed";
}

TEST_F(ReportTest, JunitCountsFailuresAndSkips) {
  tinyxml2::XMLDocument xml;
  const std::string text = junit_report(run_);
  ASSERT_EQ(xml.Parse(text.c_str()), tinyxml2::XML_SUCCESS) << text;
  const tinyxml2::XMLElement* const root = xml.FirstChildElement("testsuites");
  ASSERT_NE(root, nullptr);
  EXPECT_EQ(root->IntAttribute("tests"), 4);
  EXPECT_EQ(root->IntAttribute("failures"), 2);
  EXPECT_EQ(root->IntAttribute("skipped"), 1);
  const tinyxml2::XMLElement* const v4 = root->FirstChildElement("testsuite")->NextSiblingElement("testsuite");
  EXPECT_STREQ(v4->Attribute("name"), "v4");
  EXPECT_EQ(v4->IntAttribute("failures"), 1);
  const tinyxml2::XMLElement* const crash = v4->FirstChildElement("testcase");
  EXPECT_STREQ(crash->Attribute("name"), "crashes");
  EXPECT_STREQ(crash->Attribute("time"), "1.500");
  EXPECT_STREQ(crash->FirstChildElement("failure")->Attribute("type"), "crash");
  EXPECT_THAT(crash->FirstChildElement("failure")->Attribute("message"), HasSubstr("& <status> 3 \xef\xbf\xbd"));
  EXPECT_THAT(crash->FirstChildElement("failure")->GetText(), HasSubstr("\ndecode: exit"));
  EXPECT_NE(crash->NextSiblingElement("testcase")->FirstChildElement("skipped"), nullptr);
  // XML 1.0 cannot hold these, however they are escaped.
  EXPECT_EQ(text.find_first_of("\x01\x02"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("crashes"));
  EXPECT_THAT(text, Not(HasSubstr("\xef\xbf\xbe")));
  EXPECT_THAT(text, Not(HasSubstr("\xef\xbf\xbf")));
}

}  // namespace
}  // namespace tzmark::conformance
