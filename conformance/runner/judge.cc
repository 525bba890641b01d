// Judges what an adapter answered; see judge.h.
#include "runner/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runner/file_format.h"

namespace tzmark::conformance {
namespace {

constexpr std::size_t kReasonMaxBytes = 300;
constexpr std::size_t kValueMaxBytes = 80;

bool may_accept(Verdict verdict, Command command) {
  return verdict == Verdict::kValid || verdict == Verdict::kImplementationDefined ||
         (verdict == Verdict::kIntegrityFailure && gives_content(command));
}

bool may_reject(Verdict verdict) { return verdict != Verdict::kValid; }

std::string quote(const std::optional<Json>& value) { return value ? dump_line(*value) : "nothing"; }

// The expected and the actual value, cut to where they begin to differ.
std::pair<std::string, std::string> quote_difference(const Difference& difference) {
  const std::string wanted = quote(difference.expected);
  const std::string seen = quote(difference.got);
  const auto [differs, unused] = std::mismatch(wanted.begin(), wanted.end(), seen.begin(), seen.end());
  const auto same_bytes = static_cast<std::size_t>(differs - wanted.begin());
  std::size_t skipped_bytes = same_bytes < kValueMaxBytes ? 0 : same_bytes - kValueMaxBytes / 4;
  // Do not begin within a character.
  while (skipped_bytes > 0 && (static_cast<unsigned char>(wanted[skipped_bytes]) & 0xc0) == 0x80) --skipped_bytes;
  const auto cut = [&](const std::string& text) {
    return (skipped_bytes > 0 ? "..." : "") + one_line(std::string_view(text).substr(skipped_bytes), kValueMaxBytes);
  };
  return {cut(wanted), cut(seen)};
}

std::string describe(const Rejection& rejection) {
  std::string text = rejection.rule.value_or("no rule");
  if (rejection.offset) text += fmt::format(" at byte {}", *rejection.offset);
  return text + ": " + rejection.message;
}

void judge_content(const Json& expected, const Json& got, const std::set<std::string>& may_omit, Step& step) {
  step.difference = first_difference(expected, got, may_omit);
  if (!step.difference) return;
  step.outcome = Outcome::kWrongData;
  const auto [wanted, seen] = quote_difference(*step.difference);
  step.reason = fmt::format("{}: expected {}, got {}", step.difference->pointer, wanted, seen);
}

// Compares the content of a written file with the specification. The rules cover its hashes.
void judge_written(const Json& expected, const model::Description& written, const Profile& profile, Step& step) {
  Json got = written.document;
  // What the specification leaves open.
  if (!expected.contains("metadata")) got.erase("metadata");
  for (Json& tensor : got["tensors"]) {
    tensor.erase("crc32_field");
    tensor.erase("sha256_field");
    if (profile.writes.omits.contains("module_index")) tensor.erase("module_index");
  }
  judge_content(expected, got, profile.writes.omits, step);
}

// "terminator=reject".
// REQUIRES: the case has a policy.
std::string setting_of(const Case& item) {
  return fmt::format("{}={}", item.choice_name.value(), name_of(item.policy.value()));
}

void judge_accepted(const Case& item, const std::optional<Json>& expected, const Profile& profile, Step& step) {
  if (!may_accept(required_verdict(item), step.command)) {
    step.outcome = Outcome::kAcceptedInvalid;
    step.reason = item.policy ? fmt::format("accepted, against the policy {}", setting_of(item))
                              : fmt::format("accepted, but is {}", name_of(item.verdict));
    return;
  }
  step.outcome = Outcome::kPass;
  if (gives_content(step.command) && expected) {
    judge_content(*expected, step.answer.document, profile.reads.omits, step);
  }
}

void judge_rejected(const Case& item, Step& step) {
  const Rejection& rejection = step.answer.rejection;
  if (!may_reject(required_verdict(item))) {
    step.outcome = Outcome::kRejectedValid;
    step.reason = "rejected with " + describe(rejection);
    if (item.policy) step.reason = fmt::format("against the policy {}, {}", setting_of(item), step.reason);
    return;
  }
  step.outcome = Outcome::kPass;
  step.cites_other_rule = rejection.rule && std::ranges::find(item.rules, *rejection.rule) == item.rules.end();
}

// Judges what all commands have in common; accepted judges an acceptance.
template <typename Accepted>
void judge_answer(const Case& item, Step& step, const Accepted& accepted) {
  switch (step.answer.kind) {
    case AnswerKind::kAccepted:
      accepted();
      break;
    case AnswerKind::kRejected:
      judge_rejected(item, step);
      break;
    case AnswerKind::kUnsupported:
      step.outcome = Outcome::kSkipped;
      step.reason = "unsupported: " + step.answer.text;
      break;
    case AnswerKind::kNone:
      step.outcome = outcome_without_answer(step.process.end);
      step.reason = step.answer.text;
      break;
  }
}

// Ends a sentence about a file that a writer left although it reported an error.
std::string what_is_left(const model::Description& written) {
  if (written.defects.empty()) return "behind";
  const model::Defect& defect = written.defects.front();
  return "that breaks " + describe({defect.rule, defect.offset, model::sentence_of(defect)});
}

// Of "v5-segments", "v5".
std::string_view data_version_of(std::string_view layout) { return layout.substr(0, layout.find('-')); }

// A failure above these is worse, or says as much.
void blame_change(const char* of_what, Step& step) {
  if (!step.changed_file || step.outcome < Outcome::kAcceptedInvalid) return;
  step.outcome = Outcome::kWrongData;
  step.reason = fmt::format("changed or removed {}", of_what);
}

}  // namespace

std::string_view name_of(Outcome outcome) {
  constexpr std::array<std::string_view, kOutcomeCount> kNames = {"wrong-data",
                                                                  "crash",
                                                                  "hang",
                                                                  "memory",
                                                                  "output",
                                                                  "disk",
                                                                  "processes",
                                                                  "accepted-invalid",
                                                                  "rejected-valid",
                                                                  "pass",
                                                                  "implementation-defined",
                                                                  "skipped"};
  return kNames[static_cast<std::size_t>(outcome)];
}

Outcome outcome_without_answer(ProcessEnd end) {
  switch (end) {
    case ProcessEnd::kTimedOut:
    case ProcessEnd::kInputBroken:
      return Outcome::kHang;
    case ProcessEnd::kMemoryBroken:
      return Outcome::kMemory;
    case ProcessEnd::kOutputBroken:
      return Outcome::kOutput;
    case ProcessEnd::kDiskBroken:
      return Outcome::kDisk;
    case ProcessEnd::kCountBroken:
      return Outcome::kProcesses;
    default:
      return Outcome::kCrash;
  }
}

void judge_step(const Case& item, const std::optional<Json>& expected, const Profile& profile, Step& step) {
  judge_answer(item, step, [&] { judge_accepted(item, expected, profile, step); });
  if (step.outcome == Outcome::kPass && !step.untried.empty()) {
    step.outcome = Outcome::kSkipped;
    step.reason = step.untried;
  }
  if (is_failure(step.outcome) && !step.served.empty()) step.reason += fmt::format(" ({})", step.served);
  blame_change("the file", step);
  step.reason = one_line(step.reason, kReasonMaxBytes);
}

bool is_untried(const Step& step) {
  return step.outcome == Outcome::kSkipped && !step.untried.empty() && step.answer.kind != AnswerKind::kUnsupported;
}

void judge_end_after_answer(const ProcessResult& end, Step& step) {
  step.process = end;
  step.answer = {AnswerKind::kNone, {}, {}, "answered, and then: " + describe_end(end).text};
  step.outcome = Outcome::kCrash;
  step.difference.reset();
  step.explanation.reset();
  step.fails_afresh.reset();
  step.only_after.reset();
  step.reason = one_line(step.answer.text, kReasonMaxBytes);
}

void judge_encode_step(const Case& item, const std::optional<Json>& expected, const Profile& profile,
                       const model::Description* written, Step& step) {
  judge_answer(item, step, [&] {
    step.outcome = Outcome::kPass;
    if (!may_accept(item.verdict, step.command)) {
      step.outcome = Outcome::kAcceptedInvalid;
      step.reason = fmt::format("written, but the specification is {}", name_of(item.verdict));
    } else if (!written) {
      step.outcome = Outcome::kWrongData;
      step.reason = "no file was written";
    } else if (!written->defects.empty()) {
      const model::Defect& defect = written->defects.front();
      step.outcome = Outcome::kWrongData;
      step.reason = "wrote a file that breaks " + describe({defect.rule, defect.offset, model::sentence_of(defect)});
    } else if (expected) {
      judge_written(*expected, *written, profile, step);
    }
  });
  if (step.answer.kind == AnswerKind::kRejected && written) {
    const bool right = step.outcome == Outcome::kPass;
    step.reason = fmt::format("{}, and left a file {}", right ? "rejected" : step.reason, what_is_left(*written));
    if (right) step.outcome = Outcome::kWrongData;
  }
  blame_change("the specification or its data", step);
  step.reason = one_line(step.reason, kReasonMaxBytes);
}

std::optional<std::string> excuse(const Case& item, const Profile& profile) {
  const bool encode = item.operation == Operation::kEncode;
  if (encode && !profile.has(Command::kEncode)) return "its profile has no encode";
  if (!encode && !profile.reads_anything()) return "its profile does not read";
  const Abilities& abilities = profile.abilities(encode ? Command::kEncode : Command::kDecode);
  if (!abilities.layouts.contains(item.layout)) {
    return fmt::format("its profile does not {} {}", encode ? "write" : "read", item.layout);
  }
  for (const std::string& feature : item.features) {
    if (abilities.lacks.contains(feature)) return "its profile lacks " + feature;
  }
  if (required_verdict(item) == Verdict::kIntegrityFailure && !profile.has(Command::kVerify)) {
    return "its profile has no verify";
  }
  return std::nullopt;
}

std::optional<Case> as_other_layout(const Case& item, const Profile& profile) {
  const std::set<std::string>& layouts = profile.reads.layouts;
  // Only the first format has data versions.
  if (item.operation != Operation::kRead || item.verdict != Verdict::kValid || layouts.contains(item.layout) ||
      !format_of_layout(item.layout).only_layout.empty()) {
    return std::nullopt;
  }
  const auto known = std::ranges::find_if(
      layouts, [&](const std::string& layout) { return data_version_of(layout) == data_version_of(item.layout); });
  if (known == layouts.end()) return std::nullopt;
  Case asked = item;
  asked.layout = *known;
  if (excuse(asked, profile)) return std::nullopt;
  asked.layout = item.layout;
  asked.verdict = Verdict::kImplementationDefined;
  asked.rules.emplace_back("TZR-HDR-003");
  return asked;
}

CaseJudgement judge_case(const Case& item, const std::vector<Step>& steps) {
  std::vector<const Step*> counted;
  for (const Step& step : steps) {
    if (!is_untried(step)) counted.push_back(&step);
  }
  if (counted.empty()) {
    for (const Step& step : steps) counted.push_back(&step);
  }
  const auto skipped = std::ranges::find(counted, Outcome::kSkipped, &Step::outcome);
  // Outcomes are ordered from the worst to skipped.
  const auto worst = std::ranges::min_element(counted, {}, &Step::outcome);
  if (worst == counted.end()) return {};
  const bool undecided = (*worst)->outcome == Outcome::kPass && skipped != counted.end();
  const Step& decisive = undecided ? **skipped : **worst;
  if (decisive.outcome == Outcome::kPass) {
    const bool chose = required_verdict(item) == Verdict::kImplementationDefined;
    return {chose ? Outcome::kImplementationDefined : Outcome::kPass, ""};
  }
  return {decisive.outcome, fmt::format("{}: {}", label(decisive.command, decisive.mode), decisive.reason)};
}

}  // namespace tzmark::conformance
