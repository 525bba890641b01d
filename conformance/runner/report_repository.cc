// What the page of a repository shows of a run: a badge, a summary in Markdown, annotations; see report.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <random>
#include <span>

#include "runner/report.h"
#include "runner/result_diff.h"

namespace tzmark::conformance {
namespace {

// GitHub shows no more annotations of one step.
constexpr std::size_t kAnnotationsMax = 10;
// GitHub takes summaries of at most 1 MiB.
constexpr std::size_t kRowsMax = 200;
constexpr std::size_t kProblemsMax = 20;
constexpr std::size_t kReasonMaxBytes = 300;

bool is_unexpected_failure(const CaseResult& result) { return is_failure(result.outcome) && !result.known; }

std::string counts_of(const Totals& totals) {
  std::string text = fmt::format("{} passed, {} failed", totals.passed, totals.failed - totals.known);
  if (totals.known > 0) text += fmt::format(", {} known to fail", totals.known);
  if (totals.skipped > 0) text += fmt::format(", {} skipped", totals.skipped);
  return text;
}

// Why a run fails without a failed case, one sentence each.
std::vector<std::string> other_problems(const SuiteRun& run) {
  std::vector<std::string> problems;
  if (totals_of(run.results).ran() == 0) problems.emplace_back("no case ran");
  const std::size_t told = std::min(run.known_problems.size(), kProblemsMax);
  for (std::size_t i = 0; i < told; ++i) problems.push_back("known failures: " + run.known_problems[i]);
  if (told < run.known_problems.size()) {
    problems.push_back(fmt::format("known failures: {} more differences", run.known_problems.size() - told));
  }
  if (run.skipped_too_many()) {
    problems.push_back(fmt::format("{} cases were skipped, whole or in an input mode; --max-skipped allows {}",
                                   run.skipped(), *run.skipped_max));
  }
  return problems;
}

// Text in Markdown that looks as it is, on one line: what an adapter prints must not become a link, an image or markup.
std::string markdown(std::string_view text) {
  // Not the characters of an address: GitHub makes links of bare ones, after it has read the entities.
  constexpr std::string_view kPlain = " ,;()-+=%'\"?";
  std::string escaped;
  for (const char c : one_line(text, kReasonMaxBytes)) {
    const bool is_word =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || (static_cast<unsigned char>(c) & 0x80) != 0;
    if (is_word || kPlain.find(c) != std::string_view::npos) {
      escaped += c;
    } else {
      escaped += fmt::format("&#{};", static_cast<unsigned>(c));
      if (c == '@') escaped += "&#8203;";
    }
  }
  // What is not UTF-8 becomes a sign of its own.
  return Json::parse(dump_line(escaped)).get<std::string>();
}

// The text of a GitHub command, or with `is_property` that of its title.
std::string command_text(std::string_view text, bool is_property) {
  std::string escaped;
  for (const char c : text) {
    const bool is_special = c == '%' || c == '\n' || c == '\r' || (is_property && (c == ':' || c == ','));
    escaped += is_special ? fmt::format("%{:02X}", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return escaped;
}

std::string annotation(std::string_view title, std::string_view text) {
  return fmt::format("::error title={}::{}\n", command_text(title, true), command_text(text, false));
}

std::string first_rule(const Case& item) { return item.rules.empty() ? "no rule" : item.rules.front(); }

std::string table_of_layouts(const SuiteRun& run) {
  std::map<std::string, Totals> layouts;
  for (const CaseResult& result : run.results) layouts[result.item.layout].add(result);
  std::string text = "| layout | passed | failed | known to fail | skipped |\n|---|--:|--:|--:|--:|\n";
  for (const auto& [layout, totals] : layouts) {
    text += fmt::format("| {} | {} | {} | {} | {} |\n", markdown(layout), totals.passed, totals.failed - totals.known,
                        totals.known, totals.skipped);
  }
  return text;
}

std::string table_of_failures(const SuiteRun& run) {
  std::vector<const CaseResult*> failed;
  for (const CaseResult& result : run.results) {
    if (is_unexpected_failure(result)) failed.push_back(&result);
  }
  if (failed.empty()) return "";
  std::ranges::stable_sort(failed, {}, &CaseResult::outcome);
  std::string text = "\n| case | rules | outcome | what happened |\n|---|---|---|---|\n";
  for (std::size_t i = 0; i < std::min(failed.size(), kRowsMax); ++i) {
    const CaseResult& result = *failed[i];
    text += fmt::format("| {} | {} | {} | {} |\n", markdown(result.item.id),
                        markdown(fmt::format("{}", fmt::join(result.item.rules, " "))), name_of(result.outcome),
                        markdown(result.reason));
  }
  if (failed.size() > kRowsMax) text += fmt::format("\nand {} more\n", failed.size() - kRowsMax);
  return text;
}

}  // namespace

std::string badge_report(const SuiteRun& run) {
  const Totals totals = totals_of(run.results);
  const Selection& chosen = run.selection;
  const bool is_selection = chosen.quick || !chosen.ids.empty() || !chosen.layouts.empty() || !chosen.rules.empty();
  const bool is_complete = totals.known == 0 && run.skipped() == 0 && !is_selection;
  const char* const color = !run.passed() ? "red" : is_complete ? "brightgreen" : "green";
  return dump_lines(
      {{"schemaVersion", 1},
       {"label", "tzmark conformance"},
       {"message", totals.ran() == 0 ? "no case ran" : counts_of(totals) + (is_selection ? " of a selection" : "")},
       {"color", color},
       {"isError", !run.passed()}});
}

std::string summary_report(const SuiteRun& run) {
  const Profile& profile = run.adapter->profile();
  std::string text = fmt::format("## {} {}: {}\n\n{}\n\n", markdown(profile.name), markdown(profile.version),
                                 run.passed() ? "conforms" : "does not conform", counts_of(totals_of(run.results)));
  for (const std::string& problem : other_problems(run)) text += fmt::format("- {}\n", markdown(problem));
  if (!other_problems(run).empty()) text += '\n';
  return text + table_of_layouts(run) + table_of_failures(run);
}

std::string without_commands(std::string_view text) {
  std::random_device random;
  const std::string token = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
  return fmt::format("::stop-commands::{}\n{}::{}::\n", token, text, token);
}

std::string annotation_lines(const ResultDiff& diff) {
  std::string lines;
  if (diff.lost.empty() && diff.rules_lost.empty()) return lines;
  std::vector<std::string> cases;
  for (const ChangedCase& lost : diff.lost) {
    cases.push_back(one_line(fmt::format("{}: {}, now {}", lost.id, lost.before, lost.after), kReasonMaxBytes));
  }
  return annotation(fmt::format("{} cases and {} rules lost", diff.lost.size(), diff.rules_lost.size()),
                    one_line(fmt::format("{}", fmt::join(diff.rules_lost, " ")), 10 * kReasonMaxBytes) + "\n" +
                        fmt::format("{}", fmt::join(std::span(cases).first(std::min(cases.size(), kRowsMax)), "\n")));
}

std::string annotation_lines(const SuiteRun& run) {
  std::map<std::string, std::vector<const CaseResult*>> by_rule;
  for (const CaseResult& result : run.results) {
    if (is_unexpected_failure(result)) by_rule[first_rule(result.item)].push_back(&result);
  }
  std::vector<std::string> lines;
  if (const std::vector<std::string> problems = other_problems(run); !problems.empty()) {
    lines.push_back(annotation("tzmark conform", fmt::format("{}", fmt::join(problems, "\n"))));
  }
  for (const auto& [rule, failed] : by_rule) {
    const auto known = run.manifest->rules.find(rule);
    std::string text = known == run.manifest->rules.end() ? "" : known->second.text;
    for (const CaseResult* result : failed) {
      text +=
          fmt::format("{}{}: {}", text.empty() ? "" : "\n", result->item.id, one_line(result->reason, kReasonMaxBytes));
    }
    lines.push_back(annotation(fmt::format("{}: {} case{}", rule, failed.size(), failed.size() == 1 ? "" : "s"), text));
  }
  if (lines.size() > kAnnotationsMax) {
    const std::size_t more = lines.size() - (kAnnotationsMax - 1);
    lines.resize(kAnnotationsMax - 1);
    lines.push_back(annotation("tzmark conform", fmt::format("and {} more rules with failures", more)));
  }
  return fmt::format("{}", fmt::join(lines, ""));
}

}  // namespace tzmark::conformance
