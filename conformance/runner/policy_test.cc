// Tests of --policy and --strict: what they require, and which words they refuse.
#include "runner/policy.h"

#include <gtest/gtest.h>

#include "runner/errors.h"
#include "runner/judge.h"

namespace tzmark::conformance {
namespace {

// "gaps" is a choice that tzmark rejects, "crc" one that it accepts and that is rejected by verify.
Manifest two_choices() {
  Manifest manifest;
  manifest.open_choices["gaps"] = {"Whether gaps.", {"TZR-IDX-012"}, false, false};
  manifest.open_choices["crc"] = {"Whether CRC.", {"TZR-HSH-004"}, true, true};
  return manifest;
}

Case open_case(const std::string& choice) {
  Case item;
  item.verdict = Verdict::kImplementationDefined;
  item.choice_name = choice;
  return item;
}

Verdict required(const std::string& choice, const std::vector<std::string>& settings, bool strict = false) {
  Case item = open_case(choice);
  Policies(two_choices(), settings, strict).apply(item);
  return required_verdict(item);
}

std::string policy_error(const std::vector<std::string>& settings) {
  try {
    Policies(two_choices(), settings, false);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "";
}

TEST(Policies, LeaveOpenWhatIsNotSettled) {
  EXPECT_EQ(required("gaps", {}), Verdict::kImplementationDefined);
  EXPECT_EQ(required("gaps", {"crc=reject"}), Verdict::kImplementationDefined);
}

TEST(Policies, RequireAnAnswer) {
  EXPECT_EQ(required("gaps", {"gaps=accept"}), Verdict::kValid);
  EXPECT_EQ(required("gaps", {"gaps=reject"}), Verdict::kInvalid);
  EXPECT_EQ(required("crc", {"crc=accept"}), Verdict::kValid);
  EXPECT_EQ(required("crc", {"crc=reject"}), Verdict::kIntegrityFailure);
}

TEST(Policies, StrictRequiresTheAnswersOfTzmark) {
  EXPECT_EQ(required("gaps", {}, true), Verdict::kInvalid);
  EXPECT_EQ(required("crc", {}, true), Verdict::kValid);
  EXPECT_EQ(required("crc", {"crc=reject"}, true), Verdict::kIntegrityFailure) << "a policy comes before --strict";
}

TEST(Policies, DoNotChangeOtherCases) {
  Case item = open_case("gaps");
  item.verdict = Verdict::kMalformed;
  Policies(two_choices(), {"gaps=accept"}, false).apply(item);
  EXPECT_FALSE(item.policy);
  EXPECT_EQ(required_verdict(item), Verdict::kMalformed);
}

Verdict required_of_both(const std::vector<std::string>& settings) {
  Case item = open_case("gaps");
  Policies(two_choices(), settings, false).apply({"gaps", "crc"}, item);
  return required_verdict(item);
}

TEST(Policies, SettleAFileThatLeavesSeveralChoices) {
  EXPECT_EQ(required_of_both({"gaps=accept"}), Verdict::kImplementationDefined);
  EXPECT_EQ(required_of_both({"gaps=reject"}), Verdict::kInvalid);
  EXPECT_EQ(required_of_both({"gaps=accept", "crc=accept"}), Verdict::kValid);
  EXPECT_EQ(required_of_both({"gaps=accept", "crc=reject"}), Verdict::kIntegrityFailure);
  EXPECT_EQ(required_of_both({"gaps=reject", "crc=reject"}), Verdict::kInvalid);
  EXPECT_EQ(required_of_both({"crc=reject"}), Verdict::kIntegrityFailure) << "verify rejects it for either";
}

TEST(Policies, RefuseWhatTheyDoNotKnow) {
  EXPECT_EQ(policy_error({"gasp=accept"}), "--policy: the corpus has no open choice 'gasp'; did you mean 'gaps'?");
  EXPECT_EQ(policy_error({"something-else=accept"}), "--policy: the corpus has no open choice 'something-else'");
  EXPECT_EQ(policy_error({"gaps"}), "--policy gaps: not NAME=accept or NAME=reject");
  EXPECT_EQ(policy_error({"gaps=maybe"}), "--policy gaps=maybe: not NAME=accept or NAME=reject");
  EXPECT_EQ(policy_error({"=accept"}), "--policy =accept: not NAME=accept or NAME=reject");
  EXPECT_EQ(policy_error({"gaps=accept", "gaps=reject"}), "--policy gaps: both accept and reject");
  EXPECT_EQ(policy_error({"gaps=accept", "gaps=accept"}), "");
  EXPECT_THROW(Policies(Manifest{}, {}, true), UsageError);
  EXPECT_EQ(Policies(Manifest{}, {}, false).in_force().size(), 0U);
}

// The judgement of an answer to a case with a policy.
Step judged(Case item, AnswerKind kind, Command command = Command::kDecode) {
  Step step;
  step.command = command;
  step.answer.kind = kind;
  step.answer.rejection.message = "no";
  judge_step(item, std::nullopt, Profile{}, step);
  return step;
}

TEST(Policies, FailAnAnswerThatIsNotTheRequiredOne) {
  Case item = open_case("gaps");
  item.policy = Policy{.accepts = false};
  Step step = judged(item, AnswerKind::kAccepted);
  EXPECT_EQ(step.outcome, Outcome::kAcceptedInvalid);
  EXPECT_EQ(step.reason, "accepted, against the policy gaps=reject");
  EXPECT_EQ(judged(item, AnswerKind::kRejected).outcome, Outcome::kPass);
  EXPECT_EQ(judge_case(item, {judged(item, AnswerKind::kRejected)}).outcome, Outcome::kPass);

  item.policy = Policy{.accepts = true};
  step = judged(item, AnswerKind::kRejected);
  EXPECT_EQ(step.outcome, Outcome::kRejectedValid);
  EXPECT_EQ(step.reason, "against the policy gaps=accept, rejected with no rule: no");
  EXPECT_EQ(judged(item, AnswerKind::kAccepted).outcome, Outcome::kPass);

  item.policy = Policy{.accepts = false, .rejected_by_verify = true};
  EXPECT_EQ(judged(item, AnswerKind::kAccepted).outcome, Outcome::kPass);
  EXPECT_EQ(judged(item, AnswerKind::kAccepted, Command::kVerify).outcome, Outcome::kAcceptedInvalid);
}

}  // namespace
}  // namespace tzmark::conformance
