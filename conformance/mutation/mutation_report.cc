// Reports of a run on mutated files; see mutation_report.h.
#include "mutation/mutation_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "runner/report.h"

namespace tzmark::conformance::mutation {
namespace {

constexpr std::size_t kLineMaxBytes = 200;
constexpr std::size_t kStderrMaxBytes = 4000;

std::string percent(std::size_t part, std::size_t whole) {
  return whole == 0 ? "-" : fmt::format("{:.3f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string row(std::string_view name, const PartScore& score) {
  return fmt::format("{:<15}{:>9}{:>9}{:>11}{:>9}{:>10}{:>8}{:>10}{:>9}{:>8}\n", name, score.invalid, score.refused,
                     percent(score.refused, score.invalid), score.valid, score.accepted, score.open,
                     score.open_accepted, score.skipped, score.failed);
}

std::string table(const MutationScore& score) {
  std::string text = fmt::format("{:<15}{:>9}{:>9}{:>11}{:>9}{:>10}{:>8}{:>10}{:>9}{:>8}\n", "changed part", "invalid",
                                 "refused", "share", "valid", "accepted", "open", "accepted", "skipped", "failed");
  for (std::size_t i = 0; i < kFilePartCount; ++i) {
    const PartScore& part = score.parts[i];
    if (part.invalid + part.valid + part.open + part.skipped > 0) text += row(name_of(static_cast<FilePart>(i)), part);
  }
  return text + row("all", score.all());
}

const Step& decisive(const FailureGroup& group) {
  const auto& steps = group.first.steps;
  return *std::ranges::find_if(
      steps, [&](const Step& step) { return step.command == group.command && step.mode == group.mode; });
}

std::string find_or_empty(const std::map<std::string, std::string>& map, const std::string& key) {
  const auto found = map.find(key);
  return found == map.end() ? "" : found->second;
}

std::string failure(const MutationReport& report, const FailureGroup& group) {
  const Case& item = group.first.assessment.item;
  const Step& step = decisive(group);
  std::string text =
      fmt::format("{} by {}, {}{}{}: {} files, the first is {}\n    {}\n    {}\n", name_of(group.outcome),
                  label(group.command, group.mode), name_of(group.part), group.rule.empty() ? "" : ", ", group.rule,
                  group.mutations, item.id, one_line(item.why, kLineMaxBytes), one_line(step.reason, kLineMaxBytes));
  text += failing_field(step);
  const std::string file = find_or_empty(report.files, item.id);
  if (!file.empty()) text += fmt::format("    file: {}\n", file);
  const std::string repeat = find_or_empty(report.repeats, item.id);
  if (!repeat.empty()) text += fmt::format("    repeat: {}\n", repeat);
  return text;
}

Json json_of(const PartScore& score) {
  return {{"invalid", score.invalid},   {"refused", score.refused}, {"valid", score.valid},
          {"accepted", score.accepted}, {"open", score.open},       {"open_accepted", score.open_accepted},
          {"skipped", score.skipped},   {"failed", score.failed}};
}

Json json_of(const MutationReport& report, const FailureGroup& group) {
  const Trial& trial = group.first;
  const Case& item = trial.assessment.item;
  const Step& step = decisive(group);
  return {{"id", item.id},
          {"number", trial.number},
          {"command", name_of(group.command)},
          {"shape", name_of(group.mode)},
          {"outcome", name_of(group.outcome)},
          {"rule", or_null(group.rule)},
          {"part", name_of(group.part)},
          {"mutants", group.mutations},
          {"base", trial.base().id},
          {"mended", trial.mutated.consistent},
          {"change", one_line(trial.mutated.change, kLineMaxBytes)},
          {"verdict", name_of(item.verdict)},
          {"rules", item.rules},
          {"reason", one_line(step.reason, kLineMaxBytes)},
          {"stderr_tail", one_line(step.process.stderr_tail, kStderrMaxBytes)},
          {"file", or_null(find_or_empty(report.files, item.id))},
          {"repeat", find_or_empty(report.repeats, item.id)}};
}

}  // namespace

std::string text_report(const MutationReport& report) {
  const MutationScore& score = report.score;
  const Profile& profile = report.adapter->profile();
  const PartScore all = score.all();
  std::string text = fmt::format("{} {}: {} mutated files of seed {}, made of {} valid files and specifications\n\n",
                                 profile.name, profile.version, score.mutations, report.options.seed, score.seed_files);
  text += table(score) + "\n";
  if (score.open_rules.broken > 0) {
    text += fmt::format("of {} files that break a rule which readers need not check, rejected: {}\n\n",
                        score.open_rules.broken, score.open_rules.refused);
  }
  for (const FailureGroup& group : score.failures) text += failure(report, group);
  if (!score.failures.empty()) text += "\n";
  text += containment_lines(*report.adapter);
  const std::size_t ran = all.invalid + all.valid + all.open;
  return text + fmt::format("{} right, {} failed, {} skipped, {} double\n", ran - all.failed, all.failed, all.skipped,
                            score.duplicates);
}

Json json_report(const MutationReport& report) {
  const MutationScore& score = report.score;
  Json parts = Json::object();
  for (std::size_t i = 0; i < kFilePartCount; ++i) {
    parts[std::string(name_of(static_cast<FilePart>(i)))] = json_of(score.parts[i]);
  }
  Json outcomes = Json::object();
  for (std::size_t i = 0; i < kOutcomeCount; ++i) {
    outcomes[std::string(name_of(static_cast<Outcome>(i)))] = score.outcomes[i];
  }
  Json rules = Json::object();
  for (const auto& [rule, of_rule] : score.rules) {
    rules[rule] = {{"broken", of_rule.broken}, {"refused", of_rule.refused}};
  }
  Json failures = Json::array();
  for (const FailureGroup& group : score.failures) failures.push_back(json_of(report, group));
  return {{"seed", report.options.seed},
          {"seed_files", score.seed_files},
          {"mutants", score.mutations},
          {"duplicates", score.duplicates},
          {"all", json_of(score.all())},
          {"parts", parts},
          {"open_rules", {{"broken", score.open_rules.broken}, {"refused", score.open_rules.refused}}},
          {"rules", rules},
          {"outcomes", outcomes},
          {"failures", failures}};
}

std::string text_report(const Trial& trial) {
  const Case& item = trial.assessment.item;
  std::string text = fmt::format("{}: {}\n    verdict: {}\n", item.id, item.why, name_of(item.verdict));
  if (item.open_choice) {
    text += fmt::format("    left to the reader by {}: {}\n", item.choice_name.value(), *item.open_choice);
  }
  if (item.policy) text += fmt::format("    required by the policy: {}\n", name_of(*item.policy));
  for (const model::Defect& defect : trial.assessment.description.defects) {
    if (!model::refuses_verify(defect)) continue;
    text += fmt::format("    breaks {}{}: {}\n", defect.rule,
                        defect.offset ? fmt::format(" at byte {}", *defect.offset) : "", model::sentence_of(defect));
  }
  if (trial.steps.empty()) text += fmt::format("skipped: {}\n", trial.judgement.reason);
  for (const Step& step : trial.steps) {
    const Rejection& rejection = step.answer.rejection;
    const bool rejected = step.answer.kind == AnswerKind::kRejected;
    text += fmt::format("{}: {}{}; {}{}\n", label(step.command, step.mode), name_of(step.answer.kind),
                        rejected ? fmt::format(" ({})", one_line(rejection.message, kLineMaxBytes)) : "",
                        name_of(step.outcome), step.reason.empty() ? "" : ": " + step.reason);
  }
  return text;
}

}  // namespace tzmark::conformance::mutation
