// tzmark against; see against_command.h.
#include "commands/against_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>

#include "commands/progress.h"
#include "mutation/assess.h"
#include "mutation/compare.h"
#include "mutation/findings.h"
#include "mutation/mutation_run.h"
#include "program/local_name.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/file_format.h"
#include "runner/report.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;
using mutation::ComparedFile;
using mutation::Comparison;
using mutation::DifferenceGroup;

constexpr int kAgainstVersion = 1;

std::string name_of(const Adapter& adapter) {
  return fmt::format("{} {}", adapter.profile().name, adapter.profile().version);
}

using NextFile = std::function<std::optional<ComparedFile>()>;

NextFile case_files(const Manifest& manifest, const std::vector<Case>& cases) {
  return [&manifest, &cases, next = std::size_t{0}]() mutable -> std::optional<ComparedFile> {
    while (next < cases.size()) {
      const Case& item = cases[next++];
      // Both are asked about one file.
      if (item.operation != Operation::kRead || is_sharded_layout(item.layout)) continue;
      return ComparedFile{
          item.id, &format_of_layout(item.layout), read_case_file(manifest, item), {item.key_hex, item.passphrase}};
    }
    return std::nullopt;
  };
}

// Moves the seeds, whose drafts refer to their bytes.
NextFile mutated_files(mutation::SeedLists seeds, std::uint64_t run_seed, std::uint64_t count) {
  return [seeds = std::move(seeds), run_seed, count, next = std::uint64_t{0}]() mutable -> std::optional<ComparedFile> {
    if (next == count) return std::nullopt;
    mutation::MutatedFile mutated = mutation::make_mutated_file(seeds, run_seed, next);
    return ComparedFile{mutation::mutation_id(run_seed, next++),
                        mutated.seed->format,
                        std::move(mutated.bytes),
                        {std::move(mutated.key_hex), std::move(mutated.passphrase)}};
  };
}

// "against-1"
std::string id_of(std::size_t group) { return fmt::format("against-{}", group + 1); }

std::string repeat_of_finding(const AgainstArguments& arguments, const Adapter& first, const fs::path& corpus,
                              const std::string& id) {
  std::vector<std::string> words = {
      "tzmark",        "against", "--adapter", join_command(first.argv()), "--with", arguments.other, "--corpus",
      corpus.string(), "--only",  id};
  const RunOptions& run = arguments.run;
  const std::vector<std::string> permitting = run.adapter.permitting_words();
  words.insert(words.end(), permitting.begin(), permitting.end());
  if (run.input_modes) {
    words.insert(words.end(), {"--shape", *run.input_modes, "--seed", std::to_string(run.seed)});
  }
  return join_command(words);
}

void write_findings(const AgainstArguments& arguments, const Adapter& first, const Comparison& comparison,
                    mutation::Findings& findings) {
  for (std::size_t i = 0; i < comparison.groups.size(); ++i) {
    const DifferenceGroup& group = comparison.groups[i];
    const ComparedFile& compared = group.smallest;
    mutation::Assessment assessment =
        mutation::assess(*compared.format, compared.bytes, compared.secret.key_hex, compared.secret.passphrase);
    mutation::Finding finding;
    finding.item = std::move(assessment.item);
    finding.item.id = id_of(i);
    finding.item.why = fmt::format("Two readers differ in {}.", describe(group.behaviour));
    finding.item.origin = {{"base", compared.id}, {"mutation", "minimized while two readers differ on it"}};
    finding.item.limits = limits_for_file(0);
    finding.bytes = compared.bytes;
    finding.expected = std::move(assessment.expected);
    finding.outcome = "differs";
    const auto said = [](const std::string& says) { return says.empty() ? "accepted" : says; };
    finding.reason = fmt::format("first: {}; second: {}", said(group.first_says), said(group.second_says));
    finding.repeat = repeat_of_finding(arguments, first, findings.directory(), finding.item.id);
    findings.add(finding);
  }
}

std::string text_of(const Comparison& comparison, const Adapter& first, const Adapter& second,
                    std::chrono::nanoseconds elapsed) {
  std::string text = fmt::format("first:  {}\nsecond: {}\n\n", name_of(first), name_of(second));
  for (std::size_t i = 0; i < comparison.groups.size(); ++i) {
    const DifferenceGroup& group = comparison.groups[i];
    text += fmt::format("{}: {} files{}{}\n", id_of(i), group.ids.size(), group.behaviour.rule.empty() ? "" : ", ",
                        group.behaviour.rule);
    text += fmt::format("  {}\n", describe(group.behaviour));
    if (!group.first_says.empty()) text += fmt::format("  first:  {}\n", group.first_says);
    if (!group.second_says.empty()) text += fmt::format("  second: {}\n", group.second_says);
    text += fmt::format("  smallest: {} bytes, of {}{}\n\n", group.smallest.bytes.size(), group.smallest.id,
                        group.finished ? "" : "; not fully minimized");
  }
  for (const auto& [mode, reason] : comparison.untried) {
    text += fmt::format("input mode {} not compared on some files: {}\n", name_of(mode), reason);
  }
  // Both adapters may do the same.
  text += containment_lines(first);
  return text + fmt::format("{} files compared in {:.1f} s, {} excused; {} differ, in {} ways\n", comparison.compared,
                            seconds_of(elapsed), comparison.excused, comparison.differing, comparison.groups.size());
}

Json json_of(const Comparison& comparison, const AgainstArguments& arguments, const Adapter& first,
             const Adapter& second, std::chrono::nanoseconds elapsed) {
  Json groups = Json::array();
  Json shapes = Json::array();
  for (const InputMode mode : parse_input_modes(arguments.run.input_modes.value_or("file"))) {
    const auto untried = comparison.untried.find(mode);
    shapes.push_back(
        {{"shape", name_of(mode)}, {"untried", untried == comparison.untried.end() ? Json() : Json(untried->second)}});
  }
  for (std::size_t i = 0; i < comparison.groups.size(); ++i) {
    const DifferenceGroup& group = comparison.groups[i];
    Json pairs = Json::array();
    for (const mutation::AnswerPair& pair : group.behaviour.pairs) {
      pairs.push_back({{"command", name_of(pair.command)},
                       {"shape", name_of(pair.mode)},
                       {"first", pair.first},
                       {"second", pair.second},
                       {"sign", or_null(pair.sign)}});
    }
    groups.push_back({{"id", id_of(i)},
                      {"rule", or_null(group.behaviour.rule)},
                      {"pairs", pairs},
                      {"first_says", or_null(group.first_says)},
                      {"second_says", or_null(group.second_says)},
                      {"cases", group.ids},
                      {"smallest",
                       {{"of", group.smallest.id},
                        {"size_bytes", group.smallest.bytes.size()},
                        {"sha256", sha256_of(group.smallest.bytes)},
                        {"finished", group.finished}}}});
  }
  return {{"schema", "tzmark-against"},
          {"schema_version", kAgainstVersion},
          {"tzmark_version", TZMARK_VERSION},
          {"elapsed_ns", elapsed.count()},
          {"first", describe(first)},
          {"second", describe(second)},
          {"compare_rules", arguments.compare_rules},
          {"shapes", shapes},
          {"compared", comparison.compared},
          {"excused", comparison.excused},
          {"differing", comparison.differing},
          {"groups", groups}};
}

}  // namespace

void add_against_options(CLI::App& app, AgainstArguments& arguments) {
  add_run_options(app, arguments.run, "seed of the mutations (default: 20)");
  app.add_option("--with", arguments.other, "command of the implementation to compare with")
      ->type_name("CMD")
      ->required();
  app.add_option("--count", arguments.count, "compare on N mutated files, and not on the cases")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  app.add_flag("--compare-rules", arguments.compare_rules,
               "count a difference where rejections cite different rules, too");
  app.add_option("--findings", arguments.findings, "write one minimized case per difference into this new directory")
      ->type_name("DIR")
      ->check(why_not_local);
  app.add_option("--minimize-time", arguments.minimize_seconds,
                 "time limit for minimizing the file of each difference (default: 60)")
      ->type_name("SECONDS")
      ->check(seconds_validator());
}

int run_against(const AgainstArguments& arguments, const fs::path& prefix, const std::atomic<bool>& cancelled) {
  const Manifest manifest = load_corpus(arguments.run.corpus, prefix);
  const InputModeOptions input = arguments.run.input(prefix);
  check_input_modes(input, cancelled);
  const std::vector<Case> cases = select_cases(manifest, arguments.run.selection);
  check_output_files({arguments.run.json_file}, arguments.run.input_files(manifest));
  std::optional<mutation::Findings> findings;
  if (!arguments.findings.empty()) findings.emplace(arguments.findings);
  const Adapter first = arguments.run.adapter.start(prefix, cancelled);
  const auto began = std::chrono::steady_clock::now();
  AdapterOptions other = arguments.run.adapter;
  other.command = arguments.other;
  other.profile_file.clear();
  const Adapter second = other.start(prefix, cancelled);
  const NextFile files =
      arguments.count == 0 ? case_files(manifest, cases)
                           : mutated_files(mutation::load_seeds(manifest, cases), arguments.run.seed, arguments.count);
  const mutation::AgainstOptions options = {.jobs = arguments.run.jobs,
                                            .limits = arguments.run.limits,
                                            .input = input,
                                            .compare_rules = arguments.compare_rules,
                                            .minimize_elapsed_max = nanoseconds_of(arguments.minimize_seconds)};
  Comparison comparison;
  {
    const ProgressLine progress(arguments.count > 0 ? arguments.count : cases.size());
    comparison = mutation::compare(first, second, files, options, cancelled, std::cref(progress));
  }
  if (cancelled) throw EnvironmentError("stopped");
  const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - began;
  say("{}", text_of(comparison, first, second, elapsed));
  if (findings) write_findings(arguments, first, comparison, *findings);
  if (!arguments.run.json_file.empty()) {
    write_output_file(arguments.run.json_file, dump_lines(json_of(comparison, arguments, first, second, elapsed)));
  }
  if (comparison.compared == 0) tell("no file was compared");
  return comparison.differing == 0 && comparison.compared > 0 ? 0 : 1;
}

}  // namespace tzmark::conformance
