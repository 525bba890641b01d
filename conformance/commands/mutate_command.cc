// tzmark mutate; see mutate_command.h.
#include "commands/mutate_command.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>

#include "commands/progress.h"
#include "mutation/failure.h"
#include "mutation/findings.h"
#include "mutation/minimize.h"
#include "mutation/mutation_report.h"
#include "program/local_name.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/report.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;
using mutation::FailureGroup;
using mutation::Finding;
using mutation::Findings;
using mutation::MutationReport;
using mutation::Trial;

// Per kind of failure: enough for most, and little compared with a run.
constexpr auto kMinimizeElapsedMax = std::chrono::seconds(20);

Finding finding_of(const Trial& trial, const std::string& repeat) {
  return {trial.assessment.item,     trial.mutated.bytes,
          trial.assessment.expected, std::string(name_of(trial.judgement.outcome)),
          trial.judgement.reason,    repeat};
}

// Minimizes the file of a finding while the failure stays the same; keeps it if the failure does not repeat. A
// specification stays as it is.
void minimize(const Adapter& adapter, Command command, Finding& finding) {
  Case& item = finding.item;
  const FileFormat& format = format_of_layout(item.layout);
  const mutation::FileSecret secret{item.key_hex, item.passphrase};
  const LimitOverrides limits{item.limits.elapsed_max, item.limits.memory_max_bytes};
  if (command == Command::kEncode) return;
  const auto failure = mutation::find_failure(adapter, format, finding.bytes, secret, {command}, limits);
  if (!failure) return;
  const auto still_fails = [&](model::Bytes file) {
    return mutation::fails_alike(adapter, format, file, secret, *failure, limits);
  };
  finding.bytes =
      mutation::minimize(format, finding.bytes, to_model(secret), still_fails, {.elapsed_max = kMinimizeElapsedMax})
          .file;
  mutation::Assessment assessment = mutation::assess(format, finding.bytes, item.key_hex, item.passphrase);
  item.layout = assessment.item.layout;
  item.features = assessment.item.features;
  item.verdict = assessment.item.verdict;
  item.open_choice = assessment.item.open_choice;
  item.choice_name = assessment.item.choice_name;
  if (!assessment.item.rules.empty()) item.rules = assessment.item.rules;
  finding.expected = std::move(assessment.expected);
}

// The command line that repeats a finding.
std::string repeat_of_finding(const RunOptions& run, const fs::path& directory, const std::string& id) {
  const bool seeded = run.input_modes.has_value();
  return fmt::format("{} --corpus {} --only {}{}", join_command(run.asking_words("conform")),
                     join_command({directory.string()}), id, seeded ? fmt::format(" --seed {}", run.seed) : "");
}

int run_one(const MutateArguments& arguments, const Adapter& adapter, const mutation::SeedLists& seeds,
            const mutation::MutationOptions& options) {
  const Trial trial = mutation::try_mutation(seeds, adapter, options, *arguments.mutation);
  print_text(text_report(trial));
  if (!arguments.findings.empty()) {
    Findings findings(arguments.findings);
    const auto file = findings.add(
        finding_of(trial, repeat_of_finding(arguments.run, findings.directory(), trial.assessment.item.id)));
    say("file: {}\n", file.string());
  }
  return is_failure(trial.judgement.outcome) ? 1 : 0;
}

// Adds the commands that repeat the failures to the report, and minimized files to the findings, if there are any.
void add_failures(const MutateArguments& arguments, const Adapter& adapter, std::optional<Findings>& findings,
                  MutationReport& report) {
  const std::string repeat = join_command(arguments.run.repeating_words("mutate"));
  for (const FailureGroup& group : report.score.failures) {
    const std::string& id = group.first.assessment.item.id;
    report.repeats[id] = fmt::format("{} --seed {} --mutation {}", repeat, arguments.run.seed, group.first.number);
    if (!findings) continue;
    Finding finding = finding_of(group.first, repeat_of_finding(arguments.run, findings->directory(), id));
    minimize(adapter, group.command, finding);
    report.files[id] = findings->add(finding).string();
  }
}

}  // namespace

void add_mutate_options(CLI::App& app, MutateArguments& arguments) {
  add_run_options(app, arguments.run, "seed of the mutations (default: 20)");
  CLI::Option* const count = app.add_option("--count", arguments.count, "number of mutated files to ask about")
                                 ->type_name("N")
                                 ->check(CLI::PositiveNumber);
  app.add_option("--mutation", arguments.mutation, "ask about this mutation alone, and show it")
      ->type_name("I")
      ->excludes(count);
  add_policy_options(app, arguments.run.policy);
  app.add_flag("--stop-at-first", arguments.stop_at_first, "stop after the first failure")->needs(count);
  app.add_option("--findings", arguments.findings,
                 "write one case per kind of failure into this new directory, minimized if there is a --count")
      ->type_name("DIR")
      ->check(why_not_local);
}

int run_mutate(const MutateArguments& arguments, const fs::path& prefix, const std::atomic<bool>& cancelled) {
  if (arguments.count == 0 && !arguments.mutation) throw UsageError("--count or --mutation is required");
  const Manifest manifest = load_corpus(arguments.run.corpus, prefix);
  const std::vector<Case> cases = select_cases(manifest, arguments.run.selection);
  const Policies policies = arguments.run.policy.policies(manifest);
  const InputModeOptions input = arguments.run.input(prefix);
  check_input_modes(input, cancelled);
  check_output_files({arguments.run.json_file}, arguments.run.input_files(manifest));
  const Adapter adapter = arguments.run.adapter.start(prefix, cancelled);
  warn_of_stale_exclusions(manifest, adapter.profile());
  const mutation::SeedLists seeds = mutation::load_seeds(manifest, cases);
  const mutation::SpecificationSeeds specifications = mutation::load_specification_seeds(manifest, cases);
  MutationReport report{&adapter, {}, {}, {}, {}};
  report.options = {.seed = arguments.run.seed,
                    .mutations = arguments.count,
                    .stop_at_first = arguments.stop_at_first,
                    .policies = policies,
                    .specifications = adapter.profile().has(Command::kEncode) ? &specifications : nullptr,
                    .suite = {.jobs = arguments.run.jobs, .limits = arguments.run.limits, .kept = {}}};
  report.options.suite.input = input;
  if (arguments.mutation) return run_one(arguments, adapter, seeds, report.options);
  std::optional<Findings> findings;
  if (!arguments.findings.empty()) findings.emplace(arguments.findings);
  SuiteRun run{&manifest, &adapter, arguments.run.selection, report.options.suite};
  const auto began = std::chrono::steady_clock::now();
  {
    const ProgressLine progress(arguments.count);
    report.score = run_mutations(seeds, adapter, report.options, cancelled, std::cref(progress));
  }
  run.policies = policies;
  run.elapsed = std::chrono::steady_clock::now() - began;
  if (cancelled) throw EnvironmentError("stopped");
  add_failures(arguments, adapter, findings, report);
  print_text(text_report(report));
  if (!arguments.run.json_file.empty()) {
    Json document = result_document(run);
    document["mutation"] = json_report(report);
    write_output_file(arguments.run.json_file, dump_lines(document));
  }
  const mutation::PartScore all = report.score.all();
  return all.failed == 0 && all.invalid + all.valid + all.open > 0 ? 0 : 1;
}

}  // namespace tzmark::conformance
