// Runs the cases of a corpus; see suite.h.
#include "suite.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <set>
#include <thread>

namespace tzmark::conformance {
namespace {

CaseResult run_case(const Manifest& manifest, const Case& item, const Adapter& adapter, const SuiteOptions& options) {
  CaseResult result;
  result.item = item;
  // Also for cases that are skipped: a corpus that has changed is not one to report on.
  check_case_file(manifest, item);
  if (const auto reason = excuse(item, adapter.profile())) {
    result.reason = *reason;
    return result;
  }
  const std::optional<Json> expected = load_expected(manifest, item);
  for (const Command command : {Command::kDecode, Command::kVerify}) {
    if (!adapter.profile().has(command)) continue;
    Step step =
        adapter.ask(command, manifest.directory / item.path, item, options.elapsed_max.value_or(item.elapsed_max),
                    options.memory_max_bytes.value_or(item.memory_max_bytes));
    judge_step(item, expected, adapter.profile(), step);
    result.steps.push_back(std::move(step));
  }
  const CaseJudgement judgement = judge_case(item, result.steps);
  result.outcome = judgement.outcome;
  result.reason = judgement.reason;
  return result;
}

bool matches(const Case& item, const Selection& selection) {
  const auto id_matches = [&](const std::string& pattern) {
    return ::fnmatch(pattern.c_str(), item.id.c_str(), 0) == 0;
  };
  const auto& layouts = selection.layouts;
  return (selection.ids.empty() || std::any_of(selection.ids.begin(), selection.ids.end(), id_matches)) &&
         (layouts.empty() || std::find(layouts.begin(), layouts.end(), item.layout) != layouts.end());
}

}  // namespace

bool CaseResult::cites_other_rule() const {
  return std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.cites_other_rule; });
}

std::string CaseResult::choice() const {
  if (item.verdict != Verdict::kImplementationDefined || outcome != Outcome::kPass) return "";
  std::string text;
  bool same = true;
  for (const Step& step : steps) {
    same = same && step.answer.kind == steps.front().answer.kind;
    if (!text.empty()) text += ", ";
    text += fmt::format("{} by {}", name_of(step.answer.kind), name_of(step.command));
  }
  return same ? std::string(name_of(steps.front().answer.kind)) : text;
}

std::vector<Case> select_cases(const Manifest& manifest, const Selection& selection) {
  std::vector<Case> cases;
  std::copy_if(manifest.cases.begin(), manifest.cases.end(), std::back_inserter(cases),
               [&](const Case& item) { return matches(item, selection); });
  return cases;
}

std::vector<CaseResult> run_suite(const Manifest& manifest, const std::vector<Case>& cases, const Adapter& adapter,
                                  const SuiteOptions& options, const std::atomic<bool>& cancelled,
                                  const std::function<void(std::size_t done)>& progress) {
  std::vector<std::optional<CaseResult>> results(cases.size());
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;  // guards what follows
  std::size_t done = 0;
  std::exception_ptr first_error;

  const auto work = [&] {
    for (std::size_t i = 0; !cancelled && (i = next++) < cases.size();) {
      try {
        CaseResult result = run_case(manifest, cases[i], adapter, options);
        // A process that was stopped on the user's behalf says nothing about the adapter.
        if (cancelled) return;
        // Of all that was printed only the judgement is needed from here on.
        for (Step& step : result.steps) {
          step.answer.document = Json();
          std::string().swap(step.process.stdout_text);
        }
        const std::lock_guard lock(mutex);
        results[i] = std::move(result);
        progress(++done);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first_error) first_error = std::current_exception();
        next = cases.size();
      }
    }
  };
  {
    std::vector<std::jthread> workers;
    const std::size_t worker_count = std::min<std::size_t>(std::max(options.jobs, 1u), cases.size());
    for (std::size_t i = 0; i < worker_count; ++i) workers.emplace_back(work);
  }
  if (first_error) std::rethrow_exception(first_error);

  std::vector<CaseResult> finished;
  for (std::optional<CaseResult>& result : results) {
    if (result) finished.push_back(std::move(*result));
  }
  return finished;
}

std::vector<std::string> stale_exclusions(const Manifest& manifest, const Profile& profile) {
  std::set<std::string> features;
  for (const Case& item : manifest.cases) features.insert(item.features.begin(), item.features.end());
  std::vector<std::string> stale;
  std::set_difference(profile.lacks.begin(), profile.lacks.end(), features.begin(), features.end(),
                      std::back_inserter(stale));
  return stale;
}

}  // namespace tzmark::conformance
