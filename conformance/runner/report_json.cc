// The JSON result of a run; see report.h.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "runner/report.h"

namespace tzmark::conformance {
namespace {

constexpr std::size_t kValueMaxBytes = 1000;
constexpr std::size_t kStderrMaxBytes = 4000;

// Differing values are JSON text that is cut, since adapters may make them large.
Json describe(const std::optional<Difference>& difference) {
  if (!difference) return nullptr;
  const auto text = [](const std::optional<Json>& value) {
    return value ? Json(compact_dump(*value, kValueMaxBytes)) : Json();
  };
  return {{"pointer", difference->pointer}, {"expected", text(difference->expected)}, {"got", text(difference->got)}};
}

// A switch, so that the compiler misses a name when there is a new end.
std::string_view name_of(ProcessEnd end) {
  switch (end) {
    case ProcessEnd::kLost:
      return "lost";
    case ProcessEnd::kExited:
      return "exited";
    case ProcessEnd::kSignaled:
      return "signaled";
    case ProcessEnd::kTimedOut:
      return "timed-out";
    case ProcessEnd::kMemoryBroken:
      return "memory-broken";
    case ProcessEnd::kOutputBroken:
      return "output-broken";
    case ProcessEnd::kCancelled:
      return "cancelled";
    case ProcessEnd::kInputBroken:
      return "input-broken";
    case ProcessEnd::kDiskBroken:
      return "disk-broken";
    case ProcessEnd::kCountBroken:
      return "count-broken";
    case ProcessEnd::kAnswered:
      break;
  }
  return "answered";
}

Json describe(const ProcessResult& process) {
  return {{"end", name_of(process.end)},
          {"exit_status", process.end == ProcessEnd::kExited ? Json(process.exit_status) : Json()},
          {"signal", process.end == ProcessEnd::kSignaled ? Json(process.signal) : Json()},
          {"elapsed_ns", process.elapsed.count()},
          {"rss_peak_bytes", process.rss_peak_bytes},
          {"rss_max_bytes", or_null(process.rss_max_bytes)},
          {"stdin_taken_bytes", process.stdin_taken_bytes}};
}

Json describe(const Answer& answer) {
  Json rejected;
  if (answer.kind == AnswerKind::kRejected) {
    rejected = {{"rule", or_null(answer.rejection.rule)},
                {"offset", or_null(answer.rejection.offset)},
                {"message", one_line(answer.rejection.message, kValueMaxBytes)}};
  }
  return {
      {"kind", name_of(answer.kind)}, {"rejected", rejected}, {"text", or_null(one_line(answer.text, kValueMaxBytes))}};
}

Json describe(const std::optional<Explanation>& explanation) {
  if (!explanation) return nullptr;
  Json bytes = Json::array();
  for (const model::Annotated& row : explanation->bytes) {
    bytes.push_back({{"offset", row.offset},
                     {"hex", row.hex},
                     {"field", row.field},
                     {"value", one_line(row.value, kValueMaxBytes)},
                     {"marked", row.marked}});
  }
  return {{"rule", or_null(explanation->rule)},
          {"offset", or_null(explanation->offset)},
          {"message", one_line(explanation->message, kValueMaxBytes)},
          {"bytes", bytes}};
}

Json describe(const std::optional<WrittenFile>& written) {
  if (!written) return nullptr;
  return {{"size_bytes", written->size_bytes}, {"sha256", written->sha256}};
}

std::string tail(const std::string& text, std::size_t max_bytes) {
  return text.size() <= max_bytes ? text : text.substr(text.size() - max_bytes);
}

Json describe(const std::optional<OnlyAfterEarlier>& only_after) {
  if (!only_after) return nullptr;
  Json questions = Json::array();
  for (const EarlierQuestion& question : only_after->questions) {
    questions.push_back(
        {{"case", question.id}, {"command", name_of(question.command)}, {"shape", name_of(question.mode)}});
  }
  return {{"asked", only_after->asked},
          {"questions", questions},
          {"shortest", only_after->shortest},
          {"repeat", or_null(only_after->repeat)}};
}

}  // namespace

Json describe(const Step& step) {
  return {{"command", name_of(step.command)},
          {"shape", name_of(step.mode)},
          {"outcome", name_of(step.outcome)},
          {"reason", or_null(step.reason)},
          {"answer", describe(step.answer)},
          {"cites_other_rule", step.cites_other_rule},
          {"difference", describe(step.difference)},
          {"explanation", describe(step.explanation)},
          {"written", describe(step.written)},
          {"fails_afresh", or_null(step.fails_afresh)},
          {"only_after", describe(step.only_after)},
          {"process", describe(step.process)},
          {"stderr_tail", tail(step.process.stderr_tail, kStderrMaxBytes)}};
}

namespace {

// The command line that repeats a case.
std::string repro_of(const SuiteRun& run, const CaseResult& result) {
  const auto served = std::ranges::find_if(result.steps, [&](const Step& step) {
    return step.outcome == result.outcome && step.only_after && !step.only_after->repeat.empty();
  });
  if (served != result.steps.end()) return served->only_after->repeat;
  return repro_command(*run.manifest, result.item, *run.adapter, run.options.input,
                       decisive_step(result, run.adapter->profile(), run.options.input.modes));
}

Json describe(const SuiteRun& run, const CaseResult& result) {
  const Case& item = result.item;
  Json steps = Json::array();
  for (const Step& step : result.steps) steps.push_back(describe(step));
  Json document = {{"id", item.id},
                   {"operation", name_of(item.operation)},
                   {"path", item.path.string()},
                   {"sha256", item.sha256},
                   {"size_bytes", item.size_bytes}};
  document.update(describe(item));
  document.update({{"open_choice", or_null(item.open_choice)},
                   {"choice_name", or_null(item.choice_name)},
                   {"policy", item.policy ? Json(name_of(*item.policy)) : Json()},
                   {"erratum", or_null(item.erratum)},
                   {"origin", item.origin},
                   {"outcome", name_of(result.outcome)},
                   {"reason", or_null(result.reason)},
                   {"choice", or_null(result.choice())},
                   {"cites_other_rule", result.cites_other_rule()},
                   {"known", or_null(result.known)},
                   {"repro", repro_of(run, result)},
                   {"steps", std::move(steps)}});
  return document;
}

Json describe(const Policies& policies) {
  Json document = Json::object();
  for (const auto& [name, policy] : policies.in_force()) document[name] = name_of(policy);
  return document;
}

Json describe_summary(const std::vector<CaseResult>& results) {
  const Totals totals = totals_of(results);
  std::array<std::size_t, kOutcomeCount> counts{};
  std::size_t other_rule = 0;
  for (const CaseResult& result : results) {
    ++counts[static_cast<std::size_t>(result.outcome)];
    if (result.cites_other_rule()) ++other_rule;
  }
  Json outcomes = Json::object();
  for (std::size_t i = 0; i < kOutcomeCount; ++i) outcomes[std::string(name_of(static_cast<Outcome>(i)))] = counts[i];
  return {{"passed", totals.passed},
          {"failed", totals.failed},
          {"skipped", totals.skipped},
          {"known", totals.known},
          {"unknown", totals.failed - totals.known},
          {"outcomes", outcomes},
          {"cites_other_rule", other_rule}};
}

// The results in each input mode of the run.
Json describe_input_modes(const SuiteRun& run) {
  Json modes = Json::array();
  for (const InputMode mode : run.options.input.modes) {
    const Totals totals = totals_in(run.results, mode);
    modes.push_back(
        {{"shape", name_of(mode)}, {"passed", totals.passed}, {"failed", totals.failed}, {"skipped", totals.skipped}});
  }
  return modes;
}

Json describe_sampled(const SuiteRun& run) {
  Json modes = Json::array();
  for (const SampledMode& sampled : sampled_in(run)) {
    modes.push_back({{"shape", name_of(sampled.mode)},
                     {"passed", sampled.totals.passed},
                     {"failed", sampled.totals.failed},
                     {"elapsed_ns", sampled.elapsed.count()}});
  }
  return modes;
}

// The rules that the cases of the run are about.
Json describe_rules(const SuiteRun& run) {
  std::set<std::string> cited;
  for (const CaseResult& result : run.results) cited.insert(result.item.rules.begin(), result.item.rules.end());
  Json rules = Json::object();
  for (const std::string& id : cited) {
    const auto found = run.manifest->rules.find(id);
    if (found == run.manifest->rules.end()) continue;
    const Rule& rule = found->second;
    rules[id] = {{"level", rule.level}, {"binds", rule.binds}, {"text", rule.text}, {"section", rule.section}};
  }
  return rules;
}

}  // namespace

Json describe(const Adapter& adapter) {
  return {{"argv", adapter.argv()},
          {"profile", adapter.profile().document},
          {"containment_gaps", containment_gaps(adapter.permissions())}};
}

Json result_document(const SuiteRun& run) {
  const SuiteOptions& options = run.options;
  Json cases = Json::array();
  for (const CaseResult& result : run.results) cases.push_back(describe(run, result));
  return {
      {"schema", "tzmark-conformance"},
      {"schema_version", kResultVersion},
      {"tzmark_version", TZMARK_VERSION},
      {"started", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(run.started)))},
      {"elapsed_ns", run.elapsed.count()},
      {"adapter",
       {{"argv", run.adapter->argv()},
        {"profile", run.adapter->profile().document},
        {"idle_elapsed_ns", run.adapter->idle_elapsed().count()},
        {"idle_rss_bytes", run.adapter->idle_rss_bytes()},
        {"idle_counted_elapsed_ns", run.adapter->idle_counted_elapsed().count()},
        {"idle_counted_rss_bytes", run.adapter->idle_counted_rss_bytes()},
        {"stale_exclusions", stale_exclusions(*run.manifest, run.adapter->profile())},
        {"containment_gaps", containment_gaps(run.adapter->permissions())}}},
      {"corpus", {{"manifest_sha256", run.manifest->sha256}, {"cases", run.manifest->cases.size()}}},
      {"serve", run.adapter->serves()},
      {"rules", describe_rules(run)},
      {"known_problems", run.known_problems},
      {"options",
       {{"only", run.selection.ids},
        {"layouts", run.selection.layouts},
        {"rules", run.selection.rules},
        {"quick", run.selection.quick},
        {"jobs", options.jobs},
        {"elapsed_max_ns", options.limits.elapsed_max ? Json(options.limits.elapsed_max->count()) : Json()},
        {"memory_max_bytes", or_null(options.limits.memory_max_bytes)},
        {"strict", run.policies.strict()},
        {"policies", describe(run.policies)},
        {"seed", options.input.seed},
        {"skipped_max", or_null(run.skipped_max)}}},
      {"shapes", describe_input_modes(run)},
      {"sampled_shapes", describe_sampled(run)},
      {"summary", describe_summary(run.results)},
      {"cases", std::move(cases)},
  };
}

}  // namespace tzmark::conformance
