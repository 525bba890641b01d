// tzmark compare: tests whether the results of one build are slower than those of another.
//
// Exit status: 0 no regression; 1 a regression, a slow-down of which nothing shows whether it is the machine's, or a
// result that some runs lack; 2 runs that are not comparable, or too few to show a regression.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "cli/bench_commands.h"
#include "cli/comparison_table.h"
#include "cli/run_program.h"
#include "program/local_name.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr std::size_t kDifferencesShown = 12;
// With so few, Student's t for a table of 30 rows is more than 10.
constexpr std::size_t kProcessesOfVagueFloor = 4;

struct CompareOptions {
  std::vector<std::string> files;  // OLD and NEW; with --runs comma-separated lists
  std::vector<std::string> old_files, new_files;
  bool runs = false, by_rate = false, by_ratio = false, force = false, allow_missing = false;
  ComparisonRule rule;
  std::string floor_file, calibrate_file, json_file, markdown_file;
};

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    names.push_back(list.substr(begin, end - begin));
    if (names.back().empty()) throw Error(ErrorCode::kUsage, fmt::format("a file name in '{}' is empty", list));
    begin = end + 1;
  }
  return names;
}

// Brings the three forms of the command line into one.
void find_files(CompareOptions& options) {
  const bool named = !options.old_files.empty() || !options.new_files.empty();
  if (named && !options.files.empty()) throw Error(ErrorCode::kUsage, "give OLD and NEW, or --old and --new, not both");
  if (!named) {
    if (options.files.size() != 2) throw Error(ErrorCode::kUsage, "give one OLD and one NEW; several with --runs");
    options.old_files = options.runs ? split(options.files[0]) : std::vector{options.files[0]};
    options.new_files = options.runs ? split(options.files[1]) : std::vector{options.files[1]};
  }
  const bool calibrates = !options.calibrate_file.empty();
  if (calibrates && !options.new_files.empty()) {
    throw Error(ErrorCode::kUsage, "--calibrate takes runs of one build, with --old");
  }
  if (options.old_files.empty() || (options.new_files.empty() && !calibrates)) {
    throw Error(ErrorCode::kUsage, "both sides need a result");
  }
  if (options.rule.paired && options.old_files.size() != options.new_files.size()) {
    throw Error(ErrorCode::kUsage, fmt::format("--paired needs equal numbers of runs, not {} and {}",
                                               options.old_files.size(), options.new_files.size()));
  }
}

// Refuses outputs that would replace an input, or each other.
void check_outputs(const CompareOptions& options) {
  std::vector<std::string> taken = options.old_files;
  taken.insert(taken.end(), options.new_files.begin(), options.new_files.end());
  if (!options.floor_file.empty()) taken.push_back(options.floor_file);
  for (const std::string& output : {options.calibrate_file, options.json_file, options.markdown_file}) {
    if (output.empty()) continue;
    refuse_to_replace(output, taken);
    taken.push_back(output);
  }
}

std::string why_blind(const ComparedRuns& compared) {
  if (compared.floor != nullptr && compared.floor->processes() <= kProcessesOfVagueFloor) {
    return fmt::format("the floor is of {} processes, which cannot tell noise from a slow-down; calibrate it with more",
                       compared.floor->processes());
  }
  const std::size_t runs = std::min(compared.before.size(), compared.after.size());
  if (runs == 1) return "one process on a side needs 6 samples (--rounds 6), and an idle machine or --floor";
  const std::size_t required = runs_required(compared.tests, compared.rule);
  if (runs < required) return fmt::format("run at least {} processes on each side", required);
  return "a build at less than half the speed could pass, so much do runs of one build differ; the machine is too busy";
}

// Refuses to pass rows that could not have failed.
void refuse_blind_rows(const ComparedRuns& compared) {
  const std::size_t blind = compared.blind_rows();
  if (blind == 0) return;
  throw Error(ErrorCode::kUsage, fmt::format("{} of {} rows cannot show a regression: {}; --force goes on", blind,
                                             compared.rows.size(), why_blind(compared)));
}

// Loads the runs of one side. The same run twice would count as two processes.
std::vector<RunDocument> load(const std::vector<std::string>& files) {
  std::vector<RunDocument> runs;
  for (const std::string& file : files) {
    runs.push_back(load_run(file));
    for (std::size_t i = 0; i + 1 < runs.size(); ++i) {
      const auto same = [](const auto& a, const auto& b) {
        return a.first == b.first && a.second.rates == b.second.rates;
      };
      if (!std::ranges::equal(runs[i].series, runs.back().series, same)) continue;
      throw Error(ErrorCode::kUsage,
                  fmt::format("{} and {} have the same samples: they are one run", runs[i].file, file));
    }
  }
  return runs;
}

void refuse_differences(const std::vector<Difference>& differences, bool force) {
  for (std::size_t i = 0; i < differences.size() && i < kDifferencesShown; ++i) {
    say("different {}\n", difference_text(differences[i]));
  }
  if (differences.size() > kDifferencesShown) say("and {} more differences\n", differences.size() - kDifferencesShown);
  if (differences.empty() || force) return;
  std::set<std::string> facts;
  for (const Difference& difference : differences) facts.insert(difference.fact);
  throw Error(ErrorCode::kUsage,
              fmt::format("the runs differ in {}{} and are not comparable; --force compares them", *facts.begin(),
                          facts.size() > 1 ? fmt::format(" and {} more facts", facts.size() - 1) : ""));
}

// Returns the facts that a floor and runs have both; others say nothing about the machine.
std::vector<Difference> floor_differences(const FloorFile& floor, const RunDocument& run) {
  RunDocument machine;
  RunDocument of_floor;
  machine.file = run.file;
  const auto copy = [](const RunDocument& from, RunDocument& to) {
    for (const auto& [name, value] : from.facts) {
      if (name.starts_with("machine.") || name.starts_with("context ") || name == "measuring core")
        to.facts[name] = value;
    }
  };
  copy(run, machine);
  copy(floor.facts(), of_floor);
  return differences_of({of_floor, machine});
}

void run(CompareOptions& options, int& status) {
  find_files(options);
  check_outputs(options);
  ComparedRuns compared{load(options.old_files), load(options.new_files), options.rule, nullptr,
                        options.by_rate,         options.by_ratio};
  std::vector<RunDocument> all = compared.before;
  all.insert(all.end(), compared.after.begin(), compared.after.end());
  compared.differences = differences_of(all);
  std::optional<FloorFile> floor;
  if (!options.floor_file.empty()) {
    floor.emplace(options.floor_file);
    const std::vector<Difference> differences = floor_differences(*floor, all.front());
    compared.differences.insert(compared.differences.end(), differences.begin(), differences.end());
    compared.floor = &*floor;
  }
  refuse_differences(compared.differences, options.force);
  if (!options.calibrate_file.empty()) {
    ResultFile(options.calibrate_file).commit(json_text(floor_document(compared.before)));
    return;
  }
  compare_documents(compared);
  for (const MissingResult& missing : compared.missing) say("{}\n", missing_text(missing));
  if (compared.rows.empty() && (compared.missing.empty() || options.allow_missing)) {
    throw Error(ErrorCode::kUsage, "the two sides have no result in common");
  }
  for (const std::string& remark : remarks_of(compared)) say("{}\n", remark);
  if (!compared.rows.empty()) say("{}", table_text(compared));
  if (!options.json_file.empty()) ResultFile(options.json_file).commit(json_text(to_json(compared)));
  if (!options.markdown_file.empty()) ResultFile(options.markdown_file).commit(markdown_text(compared));
  if (compared.has_regression() || compared.undecided_rows() > 0 ||
      (!compared.missing.empty() && !options.allow_missing)) {
    status = 1;
  } else if (!options.force) {
    refuse_blind_rows(compared);
  }
}

}  // namespace

void add_compare(CLI::App& app, int& status) {
  auto options = std::make_shared<CompareOptions>();
  // An empty variable of a script must not leave out a floor or an output.
  const CLI::Validator named(
      [](const std::string& name) { return name.empty() ? "a file name is empty" : why_not_local(name); }, "");
  CLI::App* command = app.add_subcommand(
      "compare", "Compare results of bench, or of Google Benchmark; exit 1 on a regression or a missing result");
  command->add_option("FILES", options->files, "OLD and NEW: results of the same command on the same machine")
      ->check(named);
  command->add_flag("--runs", options->runs, "OLD and NEW are comma-separated lists, one result per process");
  command->add_option("--old", options->old_files, "Result of the old build; repeat it for each process")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(named);
  command->add_option("--new", options->new_files, "Result of the new build; repeat it for each process")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->check(named);
  command->add_flag("--paired", options->rule.paired, "The i-th runs of both sides ran in turn");
  command
      ->add_option("--threshold", options->rule.threshold,
                   "Fraction by which a result may be slower without being a regression")
      ->check(within(0, 0.9))
      ->capture_default_str();
  command->add_option("--alpha", options->rule.alpha, "Probability of any false claim over the whole comparison")
      ->check(within(1e-6, 0.5))
      ->capture_default_str();
  command->add_option("--floor", options->floor_file, "Claim nothing below the floor in this file")->check(named);
  CLI::Option* calibrate =
      command
          ->add_option("--calibrate", options->calibrate_file,
                       "Write the floor of this machine, from runs of one build (--old), to this file")
          ->check(named);
  CLI::Option* by_rate =
      command->add_flag("--by-rate", options->by_rate, "Judge rates, not their ratios to the raw path of the same run");
  command
      ->add_flag("--by-ratio", options->by_ratio,
                 "Judge ratios to the raw path of the same run: what slows both down is the machine's")
      ->excludes(by_rate);
  command->add_flag("--allow-missing", options->allow_missing, "Go on if some runs lack a result");
  command->add_flag("--force", options->force,
                    "Compare runs that differ in machine, workload or command, or are too few");
  command->add_option("--json", options->json_file, "Write the comparison to this file")
      ->check(named)
      ->excludes(calibrate);
  command->add_option("--markdown", options->markdown_file, "Write it as Markdown, for a pull request")
      ->check(named)
      ->excludes(calibrate);
  command->callback([options, &status] { run(*options, status); });
}

}  // namespace tzmark::bench
