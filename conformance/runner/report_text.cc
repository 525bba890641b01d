// The table of a run for people; see report.h.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "runner/report.h"
#include "runner/selection.h"

namespace tzmark::conformance {
namespace {

// Row of the cases that need nothing but plain tensors, and of all cases together.
const char* const kPlain = "plain";
const char* const kAll = "all";

std::string cell(const Totals& totals) {
  if (totals.ran() == 0 && totals.skipped == 0) return "-";
  std::string text = fmt::format("{}/{}", totals.passed, totals.ran());
  if (totals.skipped > 0) text += fmt::format(" +{}s", totals.skipped);
  return text;
}

std::string matrix(const std::vector<CaseResult>& results) {
  std::set<std::string> layouts;
  std::set<std::string> features;
  std::map<std::pair<std::string, std::string>, Totals> cells;
  for (const CaseResult& result : results) {
    layouts.insert(result.item.layout);
    features.insert(result.item.features.begin(), result.item.features.end());
    std::vector<std::string> rows = {kAll};
    rows.insert(rows.end(), result.item.features.begin(), result.item.features.end());
    if (result.item.features.empty()) rows.emplace_back(kPlain);
    for (const std::string& row : rows) {
      for (const std::string& column : {result.item.layout, std::string(kAll)}) cells[{row, column}].add(result);
    }
  }

  std::vector<std::string> columns(layouts.begin(), layouts.end());
  columns.push_back(kAll);
  std::vector<std::string> rows = {kPlain};
  rows.insert(rows.end(), features.begin(), features.end());
  rows.push_back(kAll);

  std::vector<std::vector<std::string>> table = {{"feature"}};
  table[0].insert(table[0].end(), columns.begin(), columns.end());
  for (const std::string& row : rows) {
    std::vector<std::string> line = {row};
    for (const std::string& column : columns) line.push_back(cell(cells[{row, column}]));
    table.push_back(line);
  }

  std::vector<std::size_t> widths(table[0].size());
  for (const auto& line : table) {
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text;
  for (const auto& line : table) {
    text += fmt::format("{:<{}}", line[0], widths[0]);
    for (std::size_t i = 1; i < line.size(); ++i) text += fmt::format("  {:>{}}", line[i], widths[i]);
    text += '\n';
  }
  return text;
}

// The first rules of a case: a valid file may be about many.
std::string rules_of(const Case& item) {
  constexpr std::size_t kShownMax = 3;
  const std::size_t shown = std::min(item.rules.size(), kShownMax);
  std::string text = fmt::format("{}", fmt::join(std::span(item.rules).first(shown), " "));
  if (item.rules.size() > shown) text += fmt::format(" and {} more", item.rules.size() - shown);
  return text;
}

// The last line that the process wrote to stderr before it ended without an answer, most often the reason.
std::string last_words(const Step& step) {
  constexpr std::size_t kWordsMaxBytes = 200;
  return step.answer.kind == AnswerKind::kNone ? one_line(last_line(step.process.stderr_tail), kWordsMaxBytes) : "";
}

// The failed steps of a case, one line for those that failed alike. In the order of the commands, because the worst
// failure often hides the cause.
std::string failed_steps(const CaseResult& result) {
  std::vector<std::pair<std::string, std::vector<std::string>>> lines;  // what happened, and to which commands
  for (const Step& step : result.steps) {
    if (!is_failure(step.outcome)) continue;
    const std::string words = last_words(step);
    const std::string happened = step.reason + (words.empty() ? "" : "\n    stderr: " + words);
    const auto same = std::ranges::find(lines, happened, &std::pair<std::string, std::vector<std::string>>::first);
    std::vector<std::string>& labels = same == lines.end() ? lines.emplace_back(happened, 0).second : same->second;
    labels.push_back(label(step.command, step.mode));
  }
  std::string text;
  for (const auto& [happened, labels] : lines) text += fmt::format("    {}: {}\n", fmt::join(labels, ", "), happened);
  return text;
}

// What the model says about the file, each thing once, and where it is. What the reason says already is left out.
std::string explanations(const CaseResult& result) {
  std::vector<std::string> told;
  for (const Step& step : result.steps) {
    if (!step.explanation) continue;
    const auto& [rule, offset, message, bytes] = *step.explanation;
    std::string text;
    if (!message.empty() && message != result.item.why && step.reason.find(message) == std::string::npos) {
      text = fmt::format("    {}{}{}\n", rule, rule.empty() ? "" : ": ", message);
    }
    text += failing_field(step);
    if (std::ranges::find(told, text) == told.end()) told.push_back(text);
  }
  return fmt::format("{}", fmt::join(told, ""));
}

std::string failures(const std::vector<CaseResult>& results) {
  std::vector<const CaseResult*> failed;
  for (const CaseResult& result : results) {
    if (is_failure(result.outcome) && !result.known) failed.push_back(&result);
  }
  std::ranges::stable_sort(failed, [](const CaseResult* a, const CaseResult* b) { return a->outcome < b->outcome; });
  std::string text;
  for (const CaseResult* result : failed) {
    text += fmt::format("{} {} ({})\n", name_of(result->outcome), result->item.id, rules_of(result->item));
    if (!result->item.why.empty()) text += fmt::format("    why: {}\n", result->item.why);
    text += failed_steps(*result) + explanations(*result);
  }
  return text;
}

// The cases that were rejected as they must be, but for another rule, by the rules: the cited one, and theirs.
std::string cited_other_rules(const std::vector<CaseResult>& results) {
  std::map<std::string, std::vector<std::string>> cases;
  std::size_t count = 0;
  for (const CaseResult& result : results) {
    if (!result.cites_other_rule()) continue;
    ++count;
    const auto other = std::ranges::find_if(result.steps, &Step::cites_other_rule);
    cases[fmt::format("{} instead of {}", *other->answer.rejection.rule, rules_of(result.item))].push_back(
        result.item.id);
  }
  if (count == 0) return "";
  std::string text = fmt::format("refused as they should be, but for another rule: {}\n", count);
  for (const auto& [rules, ids] : cases) text += fmt::format("    {}: {}\n", rules, fmt::join(ids, " "));
  return text;
}

// A line if capabilities took more than counts as idle.
std::string idle_line(const Adapter& adapter) {
  const auto mebibytes = [](std::uint64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
  if (adapter.idle_counted_elapsed() == adapter.idle_elapsed() &&
      adapter.idle_counted_rss_bytes() == adapter.idle_rss_bytes()) {
    return "";
  }
  return fmt::format(
      "capabilities took {:.1f} s and {:.1f} MiB; limits count from {:.1f} s and {:.1f} MiB, because no more counts as "
      "idle\n",
      seconds_of(adapter.idle_elapsed()), mebibytes(adapter.idle_rss_bytes()),
      seconds_of(adapter.idle_counted_elapsed()), mebibytes(adapter.idle_counted_rss_bytes()));
}

// Why the input mode could not be had, with the number of cases.
std::map<std::string, std::size_t> reasons_untried(const std::vector<CaseResult>& results, InputMode mode) {
  std::map<std::string, std::size_t> reasons;
  for (const CaseResult& result : results) {
    const auto found =
        std::ranges::find_if(result.steps, [&](const Step& step) { return step.mode == mode && is_untried(step); });
    if (found != result.steps.end()) ++reasons[found->reason];
  }
  return reasons;
}

// One line per input mode, if there are others than the plain file.
std::string by_shape(const SuiteRun& run) {
  const std::vector<InputMode>& modes = run.options.input.modes;
  if (modes == std::vector<InputMode>{InputMode::kFile}) return "";
  std::string text;
  for (const InputMode mode : modes) {
    const Totals totals = totals_in(run.results, mode);
    text += fmt::format("input mode {}: {} passed, {} failed, {} skipped\n", name_of(mode), totals.passed,
                        totals.failed, totals.skipped);
    for (const auto& [reason, count] : reasons_untried(run.results, mode)) {
      text += fmt::format("    {}: {}\n", count, reason);
    }
  }
  return text;
}

// A line for each input mode that the run does not name.
std::string sampled_lines(const SuiteRun& run) {
  std::string text;
  for (const SampledMode& sampled : sampled_in(run)) {
    text += fmt::format("also asked with input mode {}: {} files, {} failed, in {:.1f} s of all threads\n",
                        name_of(sampled.mode), sampled.totals.ran(), sampled.totals.failed,
                        std::chrono::duration<double>(sampled.elapsed).count());
  }
  return text;
}

// What the cases of large files took, for people who run the suite often.
std::string large_line(const SuiteRun& run) {
  std::size_t cases = 0;
  std::chrono::nanoseconds elapsed{0};
  for (const CaseResult& result : run.results) {
    if (result.steps.empty() || !is_large(result.item)) continue;
    ++cases;
    for (const Step& step : result.steps) elapsed += step.process.elapsed;
  }
  if (cases == 0) return "";
  return fmt::format("large files: {} case{}, in {:.1f} s of all threads; --quick leaves them out\n", cases,
                     cases == 1 ? "" : "s", std::chrono::duration<double>(elapsed).count());
}

// The choices of readers that this run settled.
std::string policy_line(const Policies& policies) {
  if (policies.in_force().empty()) return "";
  std::vector<std::string> settings;
  for (const auto& [name, policy] : policies.in_force())
    settings.push_back(fmt::format("{}={}", name, name_of(policy)));
  return fmt::format("{}: {}\n", policies.strict() ? "policies (--strict)" : "policies", fmt::join(settings, " "));
}

std::string remarks(const std::vector<CaseResult>& results) {
  std::map<std::string, std::size_t> choices;
  std::map<std::string, std::size_t> skips;
  std::size_t not_asked_again = 0;
  for (const CaseResult& result : results) {
    if (!result.choice().empty()) ++choices[result.choice()];
    if (result.outcome == Outcome::kSkipped) ++skips[result.reason];
    for (const Step& step : result.steps) {
      if (is_failure(step.outcome) && step.service && !step.fails_afresh) ++not_asked_again;
    }
  }
  std::string text;
  for (const auto& [reason, count] : skips) text += fmt::format("skipped {}: {}\n", count, reason);
  for (const auto& [choice, count] : choices) text += fmt::format("implementation-defined, {}: {}\n", choice, count);
  if (not_asked_again > 0) {
    text += fmt::format("failures not asked again in a fresh process, for lack of time: {}\n", not_asked_again);
  }
  return text + cited_other_rules(results);
}

}  // namespace

std::string containment_lines(const Adapter& adapter) {
  std::string text;
  for (const std::string& gap : containment_gaps(adapter.permissions()))
    text += fmt::format("not contained: {}\n", gap);
  return text;
}

std::string failing_field(const Step& step) {
  if (!step.explanation) return "";
  const auto& rows = step.explanation->bytes;
  const auto marked = std::ranges::find_if(rows, &model::Annotated::marked);
  if (marked == rows.end()) return "";
  return fmt::format("    byte {}: {}, {} = {}\n", marked->offset, marked->field, marked->hex, marked->value);
}

void Totals::add(Outcome outcome) {
  ++(outcome == Outcome::kSkipped ? skipped : is_failure(outcome) ? failed : passed);
}

void Totals::add(const CaseResult& result) {
  add(result.outcome);
  if (is_failure(result.outcome) && result.known) ++known;
}

Totals totals_of(const std::vector<CaseResult>& results) {
  Totals totals;
  for (const CaseResult& result : results) totals.add(result);
  return totals;
}

Totals totals_in(const std::vector<CaseResult>& results, InputMode mode) {
  Totals totals;
  for (const CaseResult& result : results) {
    std::vector<Step> steps;
    std::ranges::copy_if(result.steps, std::back_inserter(steps), [&](const Step& step) {
      return (step.command == Command::kEncode ? InputMode::kFile : step.mode) == mode;
    });
    totals.add(judge_case(result.item, steps).outcome);
  }
  return totals;
}

std::vector<SampledMode> sampled_in(const SuiteRun& run) {
  std::vector<SampledMode> sampled;
  for (const InputMode mode : run.options.input.sampled) {
    SampledMode counted{.mode = mode, .totals = {}, .elapsed = {}};
    for (const CaseResult& result : run.results) {
      std::vector<Step> steps;
      std::ranges::copy_if(result.steps, std::back_inserter(steps),
                           [&](const Step& step) { return step.mode == mode; });
      if (steps.empty()) continue;
      for (const Step& step : steps) counted.elapsed += step.process.elapsed;
      counted.totals.add(judge_case(result.item, steps).outcome);
    }
    if (counted.totals.ran() != 0) sampled.push_back(counted);
  }
  return sampled;
}

bool SuiteRun::passed() const {
  const Totals totals = totals_of(results);
  return totals.ran() > 0 && totals.failed == totals.known && known_problems.empty() && !skipped_too_many();
}

std::size_t SuiteRun::skipped() const {
  // A mode that the profile does not have leaves no question.
  const auto lacks_a_mode = [this](const CaseResult& result) {
    const bool writes = std::ranges::any_of(result.steps, [](const Step& s) { return s.command == Command::kEncode; });
    return !writes && std::ranges::any_of(options.input.modes, [&](InputMode mode) {
      return std::ranges::none_of(result.steps, [mode](const Step& step) { return step.mode == mode; });
    });
  };
  return static_cast<std::size_t>(std::ranges::count_if(
      results, [&](const CaseResult& result) { return result.skipped_something() || lacks_a_mode(result); }));
}

std::string text_report(const SuiteRun& run) {
  const Profile& profile = run.adapter->profile();
  const Totals totals = totals_of(run.results);
  std::string text =
      fmt::format("{} {}: passed/run by feature and layout, +Ns for N skipped\n\n", profile.name, profile.version);
  text += matrix(run.results) + "\n";
  for (const std::string& section :
       {failures(run.results), policy_line(run.policies), remarks(run.results), by_shape(run),
        sampled_lines(run) + large_line(run), idle_line(*run.adapter), containment_lines(*run.adapter)}) {
    if (!section.empty()) text += section + "\n";
  }
  for (const std::string& problem : run.known_problems) text += fmt::format("known failures: {}\n", problem);
  if (!run.known_problems.empty()) text += '\n';
  text += fmt::format("{} passed, {} failed{}, {} skipped\n", totals.passed, totals.failed,
                      totals.known > 0 ? fmt::format(" ({} known)", totals.known) : "", totals.skipped);
  return text;
}

}  // namespace tzmark::conformance
