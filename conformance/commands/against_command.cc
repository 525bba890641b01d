// tzmark conform --against; see against_command.h.
#include "commands/against_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "mutation/assess.h"
#include "mutation/compare.h"
#include "mutation/findings.h"
#include "mutation/mutation_run.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/sha256.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;
using mutation::ComparedFile;
using mutation::Comparison;
using mutation::DifferenceGroup;

constexpr int kAgainstVersion = 1;
constexpr std::uint64_t kFindingMemoryBytes = 64 << 20;
constexpr std::chrono::seconds kFindingElapsed{10};

std::string name_of(const Adapter& adapter) {
  return fmt::format("{} {}", adapter.profile().name, adapter.profile().version);
}

// Gives the cases that are files for readers, one after another.
class Subjects {
 public:
  Subjects(const Manifest& manifest, const std::vector<Case>& cases) : manifest_(&manifest), cases_(&cases) {}

  std::optional<ComparedFile> operator()() {
    for (; next_ < cases_->size(); ++next_) {
      const Case& item = (*cases_)[next_];
      // The model knows the .tensors format alone.
      if (item.operation != Operation::kRead || item.layout == "safetensors") continue;
      ++next_;
      check_case_file(*manifest_, item);
      return ComparedFile{item.id, read_file(manifest_->directory / item.path), {item.key_hex, item.passphrase}};
    }
    return std::nullopt;
  }

 private:
  const Manifest* manifest_;
  const std::vector<Case>* cases_;
  std::size_t next_ = 0;
};

// Gives mutated files of the cases, one after another.
class MutatedFiles {
 public:
  MutatedFiles(std::vector<std::vector<mutation::Seed>> seeds, std::uint64_t run_seed, std::uint64_t mutations)
      : seeds_(std::move(seeds)), run_seed_(run_seed), count_(mutations) {}

  std::optional<ComparedFile> operator()() {
    if (next_ == count_) return std::nullopt;
    mutation::MutatedFile mutated = mutation::make_mutated_file(seeds_, run_seed_, next_);
    return ComparedFile{mutation::mutation_id(run_seed_, next_++),
                        std::move(mutated.bytes),
                        {std::move(mutated.key_hex), std::move(mutated.passphrase)}};
  }

 private:
  std::vector<std::vector<mutation::Seed>> seeds_;
  std::uint64_t run_seed_, count_;
  std::uint64_t next_ = 0;
};

std::function<std::optional<ComparedFile>()> subjects_of(const AgainstRun& run) {
  if (run.mutations == 0) return Subjects(*run.manifest, *run.cases);
  auto seeds = mutation::load_seeds(*run.manifest, *run.cases);
  if (seeds.empty()) throw UsageError("there is no valid file among the cases to make mutants of");
  return MutatedFiles(std::move(seeds), run.seed, run.mutations);
}

// "against-1"
std::string id_of(std::size_t group) { return fmt::format("against-{}", group + 1); }

std::string repeat_command(const AgainstArguments& arguments, const AgainstRun& run, const fs::path& corpus,
                           const std::string& id) {
  return join_command({"tzmark", "conform", "--adapter", join_command(run.first->argv()), "--against",
                       arguments.command, "--corpus", corpus.string(), "--only", id});
}

void write_findings(const AgainstArguments& arguments, const AgainstRun& run, const Comparison& comparison) {
  mutation::Findings findings(run.findings);
  for (std::size_t i = 0; i < comparison.groups.size(); ++i) {
    const DifferenceGroup& group = comparison.groups[i];
    const ComparedFile& compared = group.smallest;
    mutation::Assessment assessment =
        mutation::assess(compared.bytes, compared.secret.key_hex, compared.secret.passphrase);
    mutation::Finding finding;
    finding.item = std::move(assessment.item);
    finding.item.id = id_of(i);
    finding.item.why = fmt::format("Two readers differ in {}.", describe(group.behaviour));
    finding.item.origin = {{"base", compared.id}, {"mutation", "shrunk while two readers differ on it"}};
    finding.item.memory_max_bytes = kFindingMemoryBytes;
    finding.item.elapsed_max = kFindingElapsed;
    finding.bytes = compared.bytes;
    finding.expected = std::move(assessment.expected);
    finding.outcome = "differs";
    const auto said = [](const std::string& says) { return says.empty() ? "accepted" : says; };
    finding.reason = fmt::format("first: {}; second: {}", said(group.first_says), said(group.second_says));
    finding.repeat = repeat_command(arguments, run, findings.directory(), finding.item.id);
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
                        group.finished ? "" : "; not shrunk to the end");
  }
  return text + fmt::format("{} files compared in {:.1f} s, {} excused; {} differ, in {} ways\n", comparison.compared,
                            std::chrono::duration<double>(elapsed).count(), comparison.excused, comparison.differing,
                            comparison.groups.size());
}

Json describe_adapter(const Adapter& adapter) {
  return {{"argv", adapter.argv()}, {"profile", adapter.profile().document}};
}

Json or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json json_of(const Comparison& comparison, const AgainstArguments& arguments, const Adapter& first,
             const Adapter& second, std::chrono::nanoseconds elapsed) {
  Json groups = Json::array();
  for (std::size_t i = 0; i < comparison.groups.size(); ++i) {
    const DifferenceGroup& group = comparison.groups[i];
    Json pairs = Json::array();
    for (const mutation::AnswerPair& pair : group.behaviour.pairs) {
      pairs.push_back({{"command", name_of(pair.command)},
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
          {"first", describe_adapter(first)},
          {"second", describe_adapter(second)},
          {"compare_rules", arguments.compare_rules},
          {"compared", comparison.compared},
          {"excused", comparison.excused},
          {"differing", comparison.differing},
          {"groups", groups}};
}

}  // namespace

void add_against_options(CLI::App& app, AgainstArguments& arguments) {
  CLI::Option* const against = app.add_option("--against", arguments.command,
                                              "compare with this implementation, and report only where the two differ")
                                   ->type_name("CMD");
  app.add_flag("--against-rules", arguments.compare_rules, "they also differ where refusals cite other rules")
      ->needs(against);
  app.add_option("--minimize-time", arguments.minimize_seconds,
                 "with --against: shrink the file of each difference for so long at most (default: 60)")
      ->type_name("SECONDS")
      ->needs(against)
      ->check(CLI::PositiveNumber);
}

int run_against(const AgainstArguments& arguments, const AgainstRun& run, const std::atomic<bool>& cancelled,
                const std::function<void(std::size_t done)>& progress) {
  const auto began = std::chrono::steady_clock::now();
  const Adapter second(split_command(arguments.command), cancelled, run.one_shot ? Form::kOneShot : Form::kAny);
  mutation::AgainstOptions options;
  options.jobs = run.options.jobs;
  options.limits = {run.options.elapsed_max, run.options.memory_max_bytes};
  options.compare_rules = arguments.compare_rules;
  options.minimize_elapsed_max =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(arguments.minimize_seconds));
  const Comparison comparison = mutation::compare(*run.first, second, subjects_of(run), options, cancelled, progress);
  if (cancelled) throw EnvironmentError("stopped");
  const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - began;
  say("{}", text_of(comparison, *run.first, second, elapsed));
  if (!run.findings.empty()) write_findings(arguments, run, comparison);
  if (!run.json_file.empty()) {
    const Json document = json_of(comparison, arguments, *run.first, second, elapsed);
    write_file(run.json_file, document.dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  return comparison.differing == 0 ? 0 : 1;
}

}  // namespace tzmark::conformance
