// tzmark conform; see conform_command.h.
#include "commands/conform_command.h"

#include <fmt/format.h>

#include <chrono>
#include <functional>

#include "commands/corpus_command.h"
#include "commands/page.h"
#include "commands/progress.h"
#include "program/local_name.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/known.h"
#include "runner/report.h"
#include "runner/result_diff.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

SuiteOptions suite_options(const ConformArguments& arguments, const fs::path& prefix) {
  SuiteOptions options{
      .jobs = arguments.run.jobs, .limits = arguments.run.limits, .kept = {}, .input = arguments.run.input(prefix)};
  if (!arguments.kept.empty()) options.kept = arguments.kept;
  if (!arguments.run.input_modes) options.input.sampled = sampled_modes(options.input);
  return options;
}

// Prints the command that repeats one case.
int print_repro(const Manifest& manifest, const Adapter& adapter, const InputModeOptions& input,
                const std::string& id) {
  CaseResult unknown;
  unknown.item = find_case(manifest, id);
  const Decisive step = decisive_step(unknown, adapter.profile(), input.modes);
  say("{}\n", repro_command(manifest, unknown.item, adapter, input, step));
  return 0;
}

// The list of known failures; empty if there is none, or --fix-known is to make it.
std::vector<KnownFailure> known_failures(const ConformArguments& arguments) {
  const bool to_be_made = arguments.fix_known && !fs::exists(arguments.known_file);
  return arguments.known_file.empty() || to_be_made ? std::vector<KnownFailure>{} : load_known(arguments.known_file);
}

void check_outputs(const ConformArguments& arguments, const Manifest& manifest) {
  std::vector<std::string> inputs = arguments.run.input_files(manifest);
  std::vector<std::string> outputs = {arguments.run.json_file, arguments.html_file,  arguments.junit_file,
                                      arguments.tap_file,      arguments.badge_file, arguments.summary_file};
  (arguments.fix_known ? outputs : inputs).push_back(arguments.known_file);
  check_output_files(outputs, inputs);
  if (!arguments.kept.empty()) check_output_directory(arguments.kept);
}

// Compares the run with the list of known failures, and rewrites the list on request.
void judge_known(const ConformArguments& arguments, const std::vector<KnownFailure>& known, SuiteRun& run) {
  run.known_problems = apply_known(known, *run.manifest, run.results);
  if (arguments.fix_known) save_known(arguments.known_file, fix_known(known, *run.manifest, run.results));
}

void write_reports(const ConformArguments& arguments, const SuiteRun& run, const fs::path& prefix,
                   const std::atomic<bool>& cancelled) {
  const std::string& json_file = arguments.run.json_file;
  const std::string& html_file = arguments.html_file;
  const std::string json = json_file.empty() && html_file.empty() ? "" : dump_lines(result_document(run));
  if (!json_file.empty()) write_output_file(json_file, json);
  if (!arguments.junit_file.empty()) write_output_file(arguments.junit_file, junit_report(run));
  if (!arguments.tap_file.empty()) write_output_file(arguments.tap_file, tap_report(run));
  if (!arguments.badge_file.empty()) write_output_file(arguments.badge_file, badge_report(run));
  if (!arguments.summary_file.empty()) write_output_file(arguments.summary_file, summary_report(run));
  if (!html_file.empty()) make_page(prefix / "share/tzmark/reports/render.py", json, html_file, cancelled);
}

void add_output(CLI::App& app, const char* name, std::string& file, const char* text) {
  app.add_option(name, file, text)->type_name("FILE")->check(why_not_local);
}

// Compares two results, and asks no adapter.
void add_diff_option(CLI::App& app, std::vector<std::string>& files) {
  CLI::Option* const diff =
      app.add_option("--diff", files,
                     "print which cases and rules were lost and gained from one result (--json) to another, and run "
                     "no case; a loss is exit status 1")
          ->type_name("OLD NEW")
          ->expected(2)
          ->check(why_not_local);
  // By a callback, as "Excludes: --diff" at every other option would hide their help.
  app.final_callback([&app, diff] {
    if (diff->count() == 0) return;
    for (const CLI::Option* const other : app.get_options()) {
      const bool is_alone = other == diff || other->get_name() == "--annotations";
      if (!is_alone && other->count() > 0) throw CLI::ExcludesError(diff->get_name(), other->get_name());
    }
  });
}

int print_diff(const std::vector<std::string>& files, bool annotations) {
  const ResultDiff diff = diff_results(read_json(files[0]), files[0], read_json(files[1]), files[1]);
  say("{}", annotations ? without_commands(text_of(diff)) + annotation_lines(diff) : text_of(diff));
  return diff.lost.empty() && diff.rules_lost.empty() ? 0 : 1;
}

}  // namespace

void add_conform_options(CLI::App& app, ConformArguments& arguments) {
  add_run_options(app, arguments.run, "seed of short reads, pieces and offsets (default: 20)");
  app.get_option("--shape")->description("input modes, separated by commas: " + input_mode_names() +
                                         " (default: file, and for each valid file short-reads or offset)");
  add_policy_options(app, arguments.run.policy);
  app.add_option("--keep", arguments.kept,
                 "keep copies of specification, data and result of encode cases, one directory per case")
      ->type_name("DIR")
      ->check(why_not_local);
  CLI::Option* const known =
      app.add_option("--known", arguments.known_file, "list of expected failures; any difference from it fails the run")
          ->type_name("FILE")
          ->check(why_not_local);
  app.add_flag("--fix-known", arguments.fix_known, "rewrite the list of --known with the failures of this run")
      ->needs(known);
  add_output(app, "--html", arguments.html_file, "write the result as one HTML page (needs python3 with Jinja2)");
  add_output(app, "--junit", arguments.junit_file, "write the result as JUnit XML");
  add_output(app, "--tap", arguments.tap_file, "write the result in the Test Anything Protocol, version 14");
  add_output(app, "--badge", arguments.badge_file, "write a badge, as the endpoint of shields.io takes it");
  add_output(app, "--summary", arguments.summary_file, "write a summary in Markdown");
  app.add_flag("--annotations", arguments.annotations,
               "print a GitHub annotation for each rule with failures, or with --diff for what was lost");
  app.add_option("--repro", arguments.repro_case, "print the command that repeats this case, and run no case")
      ->type_name("CASE");
  app.add_option("--max-skipped", arguments.skipped_max,
                 "fail if more than N cases were skipped, whole or in one of the input modes")
      ->type_name("N")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--list", arguments.list, "print the cases (id, layout, verdict, features) and run nothing");
  add_file_options(app, arguments.file);
  add_diff_option(app, arguments.diff_files);
}

int run_conform(const ConformArguments& arguments, const fs::path& prefix, const std::atomic<bool>& cancelled) {
  if (!arguments.diff_files.empty()) return print_diff(arguments.diff_files, arguments.annotations);
  if (!arguments.file.file.empty()) return run_on_file(arguments.file, arguments.run, prefix, cancelled);
  const Manifest manifest = load_corpus(arguments.run.corpus, prefix);
  std::vector<Case> cases = select_cases(manifest, arguments.run.selection);
  const Policies policies = arguments.run.policy.policies(manifest);
  for (Case& item : cases) policies.apply(item);
  if (arguments.list) {
    print_cases(cases);
    return 0;
  }
  const SuiteOptions options = suite_options(arguments, prefix);
  check_input_modes(options.input, cancelled);
  check_outputs(arguments, manifest);
  const std::vector<KnownFailure> known = known_failures(arguments);
  load_expected(manifest, cases);
  const Adapter adapter = arguments.run.adapter.start(prefix, cancelled);
  if (!arguments.repro_case.empty()) return print_repro(manifest, adapter, options.input, arguments.repro_case);
  warn_of_stale_exclusions(manifest, adapter.profile());
  SuiteRun run{&manifest, &adapter, arguments.run.selection, options};
  const auto began = std::chrono::steady_clock::now();
  {
    const ProgressLine progress(cases.size());
    run.results = run_suite(manifest, cases, adapter, run.options, cancelled, std::cref(progress));
  }
  run.elapsed = std::chrono::steady_clock::now() - began;
  run.skipped_max = arguments.skipped_max;
  run.policies = policies;
  if (cancelled) throw EnvironmentError("stopped");
  if (!arguments.known_file.empty()) judge_known(arguments, known, run);
  say("{}", arguments.annotations ? without_commands(text_report(run)) + annotation_lines(run) : text_report(run));
  write_reports(arguments, run, prefix, cancelled);
  if (totals_of(run.results).ran() == 0) tell("no case ran");
  if (run.skipped_too_many()) {
    tell(fmt::format("{} cases were skipped, whole or in an input mode; --max-skipped allows {}", run.skipped(),
                     *run.skipped_max));
  }
  return run.passed() ? 0 : 1;
}

}  // namespace tzmark::conformance
