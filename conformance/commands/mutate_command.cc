// tzmark conform --mutate; see mutate_command.h.
#include "commands/mutate_command.h"

#include <fmt/format.h>

#include <chrono>

#include "mutation/failure.h"
#include "mutation/findings.h"
#include "mutation/minimize.h"
#include "mutation/mutation_report.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"

namespace tzmark::conformance {
namespace {

using mutation::FailureGroup;
using mutation::Finding;
using mutation::Findings;
using mutation::MutationReport;
using mutation::Trial;

// For each sort of failure: enough for most, and little beside a run.
constexpr auto kMinimizeElapsedMax = std::chrono::seconds(20);

Finding finding_of(const Trial& trial, const std::string& repeat) {
  return {trial.assessment.item,     trial.mutated.bytes,
          trial.assessment.expected, std::string(name_of(trial.judgement.outcome)),
          trial.judgement.reason,    repeat};
}

// As small as the failure stays the same; as it is if it does not show a second time.
void minimize(const Adapter& adapter, Command command, Finding& finding) {
  Case& item = finding.item;
  const mutation::FileSecret secret{item.key_hex, item.passphrase};
  const mutation::AskLimits limits{item.elapsed_max, item.memory_max_bytes};
  const auto failure = mutation::find_failure(adapter, finding.bytes, secret, {command}, limits);
  if (!failure) return;
  const auto still_fails = [&](model::Bytes file) {
    return mutation::fails_alike(adapter, file, secret, *failure, limits);
  };
  finding.bytes =
      mutation::minimize(finding.bytes, to_model(secret), still_fails, {.elapsed_max = kMinimizeElapsedMax}).file;
  mutation::Assessment assessment = mutation::assess(finding.bytes, item.key_hex, item.passphrase);
  item.layout = assessment.item.layout;
  item.features = assessment.item.features;
  item.verdict = assessment.item.verdict;
  item.open_choice = assessment.item.open_choice;
  if (!assessment.item.rules.empty()) item.rules = assessment.item.rules;
  finding.expected = std::move(assessment.expected);
}

std::string repeat_of(const MutateRun& run, std::uint64_t number) {
  return fmt::format("{} --seed {} --mutant {}", run.repeat, run.seed, number);
}

std::string repeat_of_finding(const MutateRun& run, const std::filesystem::path& folder, const std::string& id) {
  return fmt::format("{} --corpus {} --only {}", run.ask, join_command({folder.string()}), id);
}

int run_one(const MutateArguments& arguments, const MutateRun& run,
            const std::vector<std::vector<mutation::Seed>>& seeds, const mutation::MutationOptions& options) {
  const Trial trial = mutation::try_mutation(seeds, *run.suite->adapter, options, *arguments.mutated);
  print_text(text_report(trial));
  if (!run.findings.empty()) {
    Findings findings(run.findings);
    const auto file =
        findings.add(finding_of(trial, repeat_of_finding(run, findings.directory(), trial.assessment.item.id)));
    say("file: {}\n", file.string());
  }
  return is_failure(trial.judgement.outcome) ? 1 : 0;
}

}  // namespace

void add_mutate_options(CLI::App& app, MutateArguments& arguments) {
  CLI::Option* const mutate = app.add_option("--mutate", arguments.mutations,
                                             "in place of the cases, ask about this many mutants of the valid ones")
                                  ->type_name("N")
                                  ->check(CLI::PositiveNumber);
  CLI::Option* const mutated =
      app.add_option("--mutant", arguments.mutated, "ask about this mutant alone, and show it")->type_name("I");
  mutated->excludes(mutate);
  app.add_flag("--stop-at-first", arguments.stop_at_first, "end --mutate with the first mutant that fails")
      ->needs(mutate);
  for (const char* const about_cases : {"--html", "--junit", "--known", "--keep", "--repro", "--list"}) {
    mutate->excludes(app.get_option(about_cases));
    mutated->excludes(app.get_option(about_cases));
  }
  mutated->excludes(app.get_option("--against"));
}

int run_mutate(const MutateArguments& arguments, const MutateRun& run, const std::atomic<bool>& cancelled,
               const std::function<void(std::size_t done)>& progress) {
  SuiteRun& suite = *run.suite;
  const auto seeds = mutation::load_seeds(*suite.manifest, *run.cases);
  if (seeds.empty()) throw UsageError("there is no valid file among the cases to make mutants of");
  MutationReport report{suite.adapter, {}, {}, {}, {}};
  report.options.seed = run.seed;
  report.options.mutations = arguments.mutations;
  report.options.stop_at_first = arguments.stop_at_first;
  report.options.suite = suite.options;
  if (arguments.mutated) return run_one(arguments, run, seeds, report.options);
  std::optional<Findings> findings;
  if (!run.findings.empty()) findings.emplace(run.findings);
  const auto began = std::chrono::steady_clock::now();
  report.score = run_mutations(seeds, *suite.adapter, report.options, cancelled, progress);
  suite.elapsed = std::chrono::steady_clock::now() - began;
  if (cancelled) throw EnvironmentError("stopped");
  for (const FailureGroup& group : report.score.failures) {
    const std::string& id = group.first.assessment.item.id;
    report.repeats[id] = repeat_of(run, group.first.number);
    if (!findings) continue;
    Finding finding = finding_of(group.first, repeat_of_finding(run, findings->directory(), id));
    minimize(*suite.adapter, group.command, finding);
    report.files[id] = findings->add(finding).string();
  }
  print_text(text_report(report));
  if (!run.json_file.empty()) {
    Json document = result_document(suite);
    document["mutation"] = json_report(report);
    write_file(run.json_file, text_of_result(document));
  }
  const mutation::PartScore all = report.score.all();
  return all.failed == 0 && all.invalid + all.valid + all.open > 0 ? 0 : 1;
}

}  // namespace tzmark::conformance
