// Tests of the judgement: every verdict against every answer.
#include "runner/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tzmark::conformance {
namespace {

using ::testing::HasSubstr;

const Json kExpected = Json::parse(R"({"data_version": 1, "tensors": [{"shape": [2, 3], "module_index": 0}]})");

Case case_of(Verdict verdict) {
  Case item;
  item.id = "one";
  item.layout = "v1";
  item.verdict = verdict;
  item.rules = {"TZR-HDR-002", "TZR-HDR-003"};
  return item;
}

Profile profile_of(std::set<std::string> commands = {"decode", "verify"}) {
  Profile profile;
  profile.reads.layouts = {"v1"};
  profile.commands = std::move(commands);
  return profile;
}

Answer accepted(const Json& document = kExpected) { return {AnswerKind::kAccepted, document, {}, {}}; }
Answer rejected(std::optional<std::string> rule = "TZR-HDR-002") {
  return {AnswerKind::kRejected, {}, {std::move(rule), 5, "bad"}, {}};
}
Answer unsupported() { return {AnswerKind::kUnsupported, {}, {}, "not built"}; }

Step judged(Verdict verdict, Command command, Answer answer, const Profile& profile = profile_of()) {
  Step step;
  step.command = command;
  step.answer = std::move(answer);
  const bool has_expectation =
      verdict == Verdict::kValid || verdict == Verdict::kIntegrityFailure || verdict == Verdict::kImplementationDefined;
  judge_step(case_of(verdict), has_expectation ? std::optional(kExpected) : std::nullopt, profile, step);
  return step;
}

TEST(JudgeStep, EveryVerdictAgainstAcceptance) {
  const auto accept = [](Verdict verdict, Command command) { return judged(verdict, command, accepted()).outcome; };
  for (const Command command : {Command::kDecode, Command::kVerify}) {
    EXPECT_EQ(accept(Verdict::kValid, command), Outcome::kPass);
    EXPECT_EQ(accept(Verdict::kMalformed, command), Outcome::kAcceptedInvalid);
    EXPECT_EQ(accept(Verdict::kInvalid, command), Outcome::kAcceptedInvalid);
    EXPECT_EQ(accept(Verdict::kAuthenticationFailure, command), Outcome::kAcceptedInvalid);
    EXPECT_EQ(accept(Verdict::kImplementationDefined, command), Outcome::kPass);
  }
  EXPECT_EQ(accept(Verdict::kIntegrityFailure, Command::kDecode), Outcome::kPass);
  EXPECT_EQ(accept(Verdict::kIntegrityFailure, Command::kVerify), Outcome::kAcceptedInvalid);
}

// A pass without the reads that were to be short says nothing; a failure says what it says.
TEST(JudgeStep, AShapeThatWasNotTriedIsSkipped) {
  Step step;
  step.mode = InputMode::kShortReads;
  step.untried = "nothing was read";
  step.answer = accepted();
  judge_step(case_of(Verdict::kValid), kExpected, profile_of(), step);
  EXPECT_EQ(step.outcome, Outcome::kSkipped);
  EXPECT_EQ(judge_case(case_of(Verdict::kValid), {step}).reason, "decode (short-reads): nothing was read");
  judge_step(case_of(Verdict::kInvalid), std::nullopt, profile_of(), step);
  EXPECT_EQ(step.outcome, Outcome::kAcceptedInvalid);
}

// A mode that cannot be had for the program skips itself; a question that the adapter does not support, the case.
TEST(JudgeCase, AModeThatWasNotHadDoesNotSkipTheCase) {
  const Case item = case_of(Verdict::kValid);
  Step plain, untried;
  for (Step* const step : {&plain, &untried}) {
    step->answer = accepted();
    if (step == &untried) step->untried = "the program is static";
    judge_step(item, kExpected, profile_of(), *step);
  }
  EXPECT_EQ(judge_case(item, {plain, untried}).outcome, Outcome::kPass);
  EXPECT_EQ(judge_case(item, {untried}).outcome, Outcome::kSkipped);
  EXPECT_TRUE(is_untried(untried));
  untried.answer.kind = AnswerKind::kUnsupported;
  judge_step(item, kExpected, profile_of(), untried);
  EXPECT_EQ(judge_case(item, {plain, untried}).outcome, Outcome::kSkipped);
  plain.outcome = Outcome::kWrongData;
  EXPECT_EQ(judge_case(item, {plain, untried}).outcome, Outcome::kWrongData);
}

TEST(JudgeStep, EveryVerdictAgainstRejection) {
  for (const Command command : {Command::kDecode, Command::kVerify}) {
    EXPECT_EQ(judged(Verdict::kValid, command, rejected()).outcome, Outcome::kRejectedValid);
    for (const Verdict verdict : {Verdict::kMalformed, Verdict::kInvalid, Verdict::kAuthenticationFailure,
                                  Verdict::kIntegrityFailure, Verdict::kImplementationDefined}) {
      EXPECT_EQ(judged(verdict, command, rejected()).outcome, Outcome::kPass) << name_of(verdict);
    }
  }
}

TEST(JudgeStep, WrongDataNamesTheField) {
  Json document = kExpected;
  document["tensors"][0]["shape"][1] = 4;
  for (const Verdict verdict : {Verdict::kValid, Verdict::kIntegrityFailure, Verdict::kImplementationDefined}) {
    const Step step = judged(verdict, Command::kDecode, accepted(document));
    EXPECT_EQ(step.outcome, Outcome::kWrongData);
    EXPECT_EQ(step.difference->pointer, "/tensors/0/shape/1");
    EXPECT_EQ(step.reason, "/tensors/0/shape/1: expected 3, got 4");
  }
}

TEST(JudgeStep, LongValuesAreCutToWhereTheyDiffer) {
  const Json expected = {{"path", std::string(1000, 'x') + "expected"}};
  const Json got = {{"path", std::string(1000, 'x') + "seen"}};
  Step step;
  step.answer = accepted(got);
  judge_step(case_of(Verdict::kValid), expected, profile_of(), step);
  EXPECT_EQ(step.reason,
            "/path: expected ..." + std::string(20, 'x') + "expected\", got ..." + std::string(20, 'x') + "seen\"");
}

TEST(JudgeStep, OmittedFieldsFollowTheProfile) {
  Json document = kExpected;
  document["tensors"][0].erase("module_index");
  Profile profile = profile_of();
  EXPECT_EQ(judged(Verdict::kValid, Command::kDecode, accepted(document), profile).outcome, Outcome::kWrongData);
  profile.reads.omits = {"module_index"};
  EXPECT_EQ(judged(Verdict::kValid, Command::kDecode, accepted(document), profile).outcome, Outcome::kPass);
}

TEST(JudgeStep, RecordsAnotherRule) {
  EXPECT_FALSE(judged(Verdict::kInvalid, Command::kDecode, rejected("TZR-HDR-003")).cites_other_rule);
  EXPECT_FALSE(judged(Verdict::kInvalid, Command::kDecode, rejected(std::nullopt)).cites_other_rule);
  const Step step = judged(Verdict::kInvalid, Command::kDecode, rejected("TZR-IDX-001"));
  EXPECT_TRUE(step.cites_other_rule);
  EXPECT_EQ(step.outcome, Outcome::kPass);
}

TEST(JudgeStep, NoAnswerDependsOnTheEnd) {
  const auto outcome = [](ProcessEnd end) {
    Step step;
    step.process.end = end;
    step.answer.text = "what happened";
    // Even where a refusal is expected, no answer is not a refusal.
    judge_step(case_of(Verdict::kMalformed), std::nullopt, profile_of(), step);
    EXPECT_EQ(step.reason, "what happened");
    return step.outcome;
  };
  EXPECT_EQ(outcome(ProcessEnd::kExited), Outcome::kCrash);
  EXPECT_EQ(outcome(ProcessEnd::kSignaled), Outcome::kCrash);
  EXPECT_EQ(outcome(ProcessEnd::kOutputBroken), Outcome::kOutput);
  EXPECT_EQ(outcome(ProcessEnd::kLost), Outcome::kCrash);
  EXPECT_EQ(outcome(ProcessEnd::kDiskBroken), Outcome::kDisk);
  EXPECT_EQ(outcome(ProcessEnd::kCountBroken), Outcome::kProcesses);
  EXPECT_EQ(outcome(ProcessEnd::kTimedOut), Outcome::kHang);
  EXPECT_EQ(outcome(ProcessEnd::kMemoryBroken), Outcome::kMemory);
}

// What encode wrote, against a specification of that verdict.
Step written(Verdict verdict, Answer answer, const model::Description* file, const Profile& profile = profile_of()) {
  Step step;
  step.command = Command::kEncode;
  step.answer = std::move(answer);
  judge_encode_step(case_of(verdict), kExpected, profile, file, step);
  return step;
}

model::Description file_of(Json document = kExpected) {
  // Which hashes a writer stores is its own choice.
  document["tensors"][0]["crc32_field"] = "00000000";
  document["tensors"][0]["sha256_field"] = nullptr;
  return {"v1", {}, {}, std::move(document)};
}

TEST(JudgeEncodeStep, JudgesContentAndRules) {
  model::Description file = file_of();
  EXPECT_EQ(written(Verdict::kValid, accepted({}), &file).outcome, Outcome::kPass);
  EXPECT_EQ(written(Verdict::kInvalid, accepted({}), &file).outcome, Outcome::kAcceptedInvalid);

  file.defects.push_back(
      {.rule = "TZR-HDR-006", .offset = 5, .wanted = model::Words{"1 would do"}, .kind = model::Defect::Kind::kWriter});
  const Step broken = written(Verdict::kValid, accepted({}), &file);
  EXPECT_EQ(broken.outcome, Outcome::kWrongData);
  EXPECT_EQ(broken.reason, "wrote a file that breaks TZR-HDR-006 at byte 5: 1 would do");

  Json document = kExpected;
  document["tensors"][0]["module_index"] = 1;
  const model::Description other = file_of(document);
  EXPECT_EQ(written(Verdict::kValid, accepted({}), &other).reason, "/tensors/0/module_index: expected 0, got 1");
  Profile profile = profile_of();
  profile.writes.omits = {"module_index"};
  EXPECT_EQ(written(Verdict::kValid, accepted({}), &other, profile).outcome, Outcome::kPass);
}

TEST(JudgeEncodeStep, NoFileOrOneTooMany) {
  EXPECT_EQ(written(Verdict::kValid, accepted({}), nullptr).outcome, Outcome::kWrongData);
  EXPECT_EQ(written(Verdict::kValid, rejected(), nullptr).outcome, Outcome::kRejectedValid);
  EXPECT_EQ(written(Verdict::kInvalid, rejected(), nullptr).outcome, Outcome::kPass);
  const model::Description file = file_of();
  EXPECT_EQ(written(Verdict::kInvalid, rejected(), &file).reason, "rejected, and left a file behind");
  EXPECT_EQ(written(Verdict::kInvalid, rejected(), &file).outcome, Outcome::kWrongData);
}

TEST(JudgeEncodeStep, SaysWhatAFailedWriterLeft) {
  model::Description file = file_of();
  file.defects.push_back({.rule = "TZR-IDX-002", .offset = 77, .wanted = model::Words{"past its end"}});
  const Step step = written(Verdict::kValid, rejected(), &file);
  EXPECT_EQ(step.outcome, Outcome::kRejectedValid);
  EXPECT_THAT(step.reason, HasSubstr("bad, and left a file that breaks TZR-IDX-002 at byte 77: past its end"));
}

TEST(JudgeStep, UnsupportedIsSkipped) {
  const Step step = judged(Verdict::kValid, Command::kDecode, unsupported());
  EXPECT_EQ(step.outcome, Outcome::kSkipped);
  EXPECT_THAT(step.reason, HasSubstr("not built"));
}

TEST(JudgeStep, ReasonsAreOneLine) {
  Answer answer = rejected();
  answer.rejection.message = "first\nsecond" + std::string(5000, 'x');
  const Step step = judged(Verdict::kValid, Command::kDecode, answer);
  EXPECT_THAT(step.reason, HasSubstr("TZR-HDR-002 at byte 5: first second"));
  EXPECT_LT(step.reason.size(), 400u);
}

Step step_of(Command command, Outcome outcome) {
  Step step;
  step.command = command;
  step.outcome = outcome;
  step.reason = outcome == Outcome::kPass ? "" : "why";
  return step;
}

Outcome outcome_of(Verdict verdict, Outcome decode, Outcome verify) {
  return judge_case(case_of(verdict), {step_of(Command::kDecode, decode), step_of(Command::kVerify, verify)}).outcome;
}

TEST(JudgeCase, TheWorstStepDecides) {
  for (std::size_t worst = 0; worst < kOutcomeCount; ++worst) {
    for (std::size_t other = worst; other < kOutcomeCount; ++other) {
      const auto a = static_cast<Outcome>(worst);
      const auto b = static_cast<Outcome>(other);
      // A step that was skipped takes a pass back, and nothing else.
      const Outcome decides = a == Outcome::kPass && b == Outcome::kSkipped ? b : a;
      EXPECT_EQ(outcome_of(Verdict::kValid, a, b), decides);
      EXPECT_EQ(outcome_of(Verdict::kValid, b, a), decides);
    }
  }
}

TEST(JudgeCase, AChoiceIsAPassOfItsOwn) {
  EXPECT_EQ(outcome_of(Verdict::kImplementationDefined, Outcome::kPass, Outcome::kPass),
            Outcome::kImplementationDefined);
  EXPECT_EQ(outcome_of(Verdict::kImplementationDefined, Outcome::kPass, Outcome::kCrash), Outcome::kCrash);
}

TEST(JudgeCase, NamesTheStepThatDecided) {
  const CaseJudgement judgement =
      judge_case(case_of(Verdict::kValid),
                 {step_of(Command::kDecode, Outcome::kRejectedValid), step_of(Command::kVerify, Outcome::kCrash)});
  EXPECT_EQ(judgement.reason, "verify: why");
  EXPECT_EQ(judge_case(case_of(Verdict::kValid), {step_of(Command::kDecode, Outcome::kPass)}).reason, "");
}

TEST(JudgeCase, APartThatIsLeftOutDoesNotPass) {
  for (const Verdict verdict : {Verdict::kIntegrityFailure, Verdict::kInvalid, Verdict::kValid}) {
    EXPECT_EQ(outcome_of(verdict, Outcome::kPass, Outcome::kSkipped), Outcome::kSkipped);
    EXPECT_EQ(outcome_of(verdict, Outcome::kSkipped, Outcome::kPass), Outcome::kSkipped);
    EXPECT_EQ(outcome_of(verdict, Outcome::kWrongData, Outcome::kSkipped), Outcome::kWrongData);
  }
}

TEST(Excuse, FollowsTheProfile) {
  Case item = case_of(Verdict::kValid);
  item.features = {"encryption", "passphrase"};
  Profile profile = profile_of();
  EXPECT_FALSE(excuse(item, profile));
  profile.reads.lacks = {"meta"};
  EXPECT_FALSE(excuse(item, profile));
  profile.reads.lacks = {"passphrase"};
  EXPECT_THAT(*excuse(item, profile), HasSubstr("passphrase"));
  profile.reads.lacks.clear();
  item.layout = "v2";
  EXPECT_THAT(*excuse(item, profile), HasSubstr("v2"));
  EXPECT_TRUE(excuse(case_of(Verdict::kIntegrityFailure), profile_of({"decode"})));
  EXPECT_FALSE(excuse(case_of(Verdict::kIntegrityFailure), profile_of({"verify"})));
  EXPECT_FALSE(excuse(case_of(Verdict::kInvalid), profile_of({"decode"})));
  Case encode = case_of(Verdict::kValid);
  encode.operation = Operation::kEncode;
  EXPECT_THAT(*excuse(encode, profile_of()), HasSubstr("no encode"));
  Profile writer = profile_of({"encode"});
  EXPECT_THAT(*excuse(encode, writer), HasSubstr("does not write v1"));
  writer.writes.layouts = {"v1"};
  EXPECT_FALSE(excuse(encode, writer));
  EXPECT_THAT(*excuse(case_of(Verdict::kValid), writer), HasSubstr("does not read"));
}

// One data version, of which a reader knows some layouts.
TEST(AsOtherLayout, RightFilesMayBeRefused) {
  Profile profile = profile_of();
  profile.reads.layouts = {"v4", "v5-flagged-dims"};
  Case item = case_of(Verdict::kValid);
  item.layout = "v5-segments";
  item.features = {"meta"};
  EXPECT_THAT(*excuse(item, profile), HasSubstr("does not read v5-segments"));
  const std::optional<Case> asked = as_other_layout(item, profile);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->verdict, Verdict::kImplementationDefined);
  EXPECT_EQ(asked->layout, "v5-segments");
  EXPECT_EQ(asked->rules.back(), "TZR-HDR-003");
  profile.reads.lacks = {"meta"};
  EXPECT_FALSE(as_other_layout(item, profile));
}

TEST(AsOtherLayout, IsNothingForAllOthers) {
  Profile profile = profile_of();
  profile.commands.insert("encode");
  profile.reads.layouts = profile.writes.layouts = {"v4", "v5-flagged-dims"};
  Case item = case_of(Verdict::kValid);
  for (const char* layout : {"v3", "v4", "v5-flagged-dims"}) {
    item.layout = layout;
    EXPECT_FALSE(as_other_layout(item, profile)) << layout;
  }
  // A reader may say anything about a broken file, and no writer is asked to write one.
  for (const Verdict verdict : {Verdict::kMalformed, Verdict::kIntegrityFailure, Verdict::kImplementationDefined}) {
    item = case_of(verdict);
    item.layout = "v5-segments";
    EXPECT_FALSE(as_other_layout(item, profile));
  }
  item = case_of(Verdict::kValid);
  item.layout = "v5-segments";
  item.operation = Operation::kEncode;
  EXPECT_FALSE(as_other_layout(item, profile));
  EXPECT_THAT(*excuse(item, profile), HasSubstr("does not write v5-segments"));
}

TEST(Names, OutcomesAreOrderedFromTheWorst) {
  EXPECT_EQ(name_of(Outcome::kWrongData), "wrong-data");
  EXPECT_EQ(name_of(Outcome::kSkipped), "skipped");
  EXPECT_EQ(static_cast<std::size_t>(Outcome::kSkipped) + 1, kOutcomeCount);
  EXPECT_TRUE(is_failure(Outcome::kRejectedValid));
  EXPECT_FALSE(is_failure(Outcome::kPass));
  EXPECT_FALSE(is_failure(Outcome::kSkipped));
}

}  // namespace
}  // namespace tzmark::conformance
