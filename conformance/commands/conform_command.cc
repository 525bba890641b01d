// tzmark conform; see conform_command.h.
#include "commands/conform_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "commands/corpus_command.h"
#include "commands/page.h"
#include "runner/adapter.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_content.h"
#include "runner/known.h"
#include "runner/manifest.h"
#include "runner/process.h"
#include "runner/report.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

// On a terminal only: a line that counts up while the suite runs.
class Progress {
 public:
  explicit Progress(std::size_t total) : total_(total), shown_(::isatty(STDERR_FILENO) == 1) {}
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  Progress(Progress&&) = delete;
  Progress& operator=(Progress&&) = delete;
  ~Progress() {
    if (shown_) print_to_stderr("\r\033[K");
  }
  void operator()(std::size_t done) const {
    if (shown_) print_to_stderr(fmt::format("\r{}/{}", done, total_));
  }

 private:
  std::size_t total_;
  bool shown_;
};

Adapter start_adapter(const ConformArguments& arguments, const fs::path& prefix, const std::atomic<bool>& cancelled) {
  const std::vector<std::string> argv =
      arguments.adapter_command.empty() ? std::vector<std::string>{prefix / "libexec/tzmark/tzmark-adapter-reference"}
                                        : split_command(arguments.adapter_command);
  std::optional<Profile> profile;
  if (!arguments.profile_file.empty()) profile = parse_profile(read_json(arguments.profile_file).dump());
  return Adapter(argv, cancelled, arguments.one_shot ? Form::kOneShot : Form::kAny, std::move(profile));
}

SuiteOptions suite_options(const ConformArguments& arguments, const fs::path& prefix) {
  SuiteOptions options;
  options.input = {
      .modes = parse_input_modes(arguments.modes), .seed = arguments.seed, .tools = prefix / "libexec/tzmark"};
  options.jobs = arguments.jobs;
  if (arguments.timeout_seconds > 0) {
    options.elapsed_max =
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(arguments.timeout_seconds));
  }
  if (arguments.memory_bytes > 0) options.memory_max_bytes = arguments.memory_bytes;
  if (!arguments.kept.empty()) options.kept = arguments.kept;
  return options;
}

// Prints the command that repeats one case.
int print_repro(const Manifest& manifest, const Adapter& adapter, const InputOptions& input, const std::string& id) {
  for (const Case& item : manifest.cases) {
    if (item.id != id) continue;
    CaseResult unknown;
    unknown.item = item;
    say("{}\n", repro_command(manifest, item, adapter, input, decisive_step(unknown, adapter.profile(), input.modes)));
    return 0;
  }
  throw UsageError(fmt::format("the corpus has no case '{}'", id));
}

int run_against(const ConformArguments& arguments, const Manifest& manifest, const std::vector<Case>& cases,
                const Adapter& adapter, const SuiteOptions& options, const std::atomic<bool>& cancelled) {
  if (options.input.modes != std::vector<InputMode>{InputMode::kFile}) {
    throw UsageError("--against compares on plain files, without --shape");
  }
  const AgainstRun run{.manifest = &manifest,
                       .cases = &cases,
                       .first = &adapter,
                       .options = options,
                       .one_shot = arguments.one_shot,
                       .mutations = arguments.mutate.mutations,
                       .seed = arguments.seed,
                       .findings = arguments.findings,
                       .json_file = arguments.json_file};
  if (arguments.mutate.stop_at_first) throw UsageError("--stop-at-first ends a run on one implementation");
  const Progress progress(arguments.mutate.mutations > 0 ? arguments.mutate.mutations : cases.size());
  return run_against(arguments.against, run, cancelled, std::cref(progress));
}

// Throws UnavailableError if this machine cannot put files into one of the input modes.
void check_input_modes(const InputOptions& input, const Manifest& manifest, const std::atomic<bool>& cancelled) {
  if (std::find(input.modes.begin(), input.modes.end(), InputMode::kReadOnly) == input.modes.end()) return;
  std::vector<std::string> command = read_only_prefix(input, manifest.directory);
  command.push_back("true");
  const ProcessResult process = run_process(command, {}, cancelled);
  if (process.end == ProcessEnd::kExited && process.exit_status == 0) return;
  throw UnavailableError(fmt::format("the shape read-only: {}", one_line(process.stderr_tail, 1000)));
}

// The words that begin a command line which asks the same adapter.
std::vector<std::string> asking_words(const ConformArguments& arguments) {
  std::vector<std::string> words = {"tzmark", "conform"};
  if (!arguments.adapter_command.empty()) words.insert(words.end(), {"--adapter", arguments.adapter_command});
  if (!arguments.profile_file.empty()) words.insert(words.end(), {"--profile", arguments.profile_file});
  if (arguments.one_shot) words.emplace_back("--one-shot");
  return words;
}

// The same about the same cases, which mutated files are made of.
std::vector<std::string> repeating_words(const ConformArguments& arguments) {
  std::vector<std::string> words = asking_words(arguments);
  if (!arguments.corpus.empty()) words.insert(words.end(), {"--corpus", arguments.corpus});
  for (const std::string& pattern : arguments.selection.ids) words.insert(words.end(), {"--only", pattern});
  for (const std::string& layout : arguments.selection.layouts) words.insert(words.end(), {"--layout", layout});
  for (const std::string& rule : arguments.selection.rules) words.insert(words.end(), {"--rule", rule});
  return words;
}

int run_mutations(const ConformArguments& arguments, const std::vector<Case>& cases, SuiteRun& run,
                  const std::atomic<bool>& cancelled) {
  const Progress progress(arguments.mutate.mutations);
  if (run.options.input.modes != std::vector<InputMode>{InputMode::kFile}) {
    throw UsageError("--mutate asks about plain files, without --shape");
  }
  const MutateRun mutate{.suite = &run,
                         .cases = &cases,
                         .seed = arguments.seed,
                         .ask = join_command(asking_words(arguments)),
                         .repeat = join_command(repeating_words(arguments)),
                         .findings = arguments.findings,
                         .json_file = arguments.json_file};
  return run_mutate(arguments.mutate, mutate, cancelled, std::cref(progress));
}

// Compares the run with the list of known failures, and writes the list anew if that is asked for.
void judge_known(const ConformArguments& arguments, SuiteRun& run) {
  const bool to_be_made = arguments.fix_known && !fs::exists(arguments.known_file);
  const std::vector<KnownFailure> known = to_be_made ? std::vector<KnownFailure>{} : load_known(arguments.known_file);
  run.known_problems = apply_known(known, *run.manifest, run.results);
  if (arguments.fix_known) save_known(arguments.known_file, fix_known(known, *run.manifest, run.results));
}

}  // namespace

void add_conform_options(CLI::App& app, ConformArguments& arguments) {
  app.add_option("--adapter", arguments.adapter_command,
                 "command of the implementation under test, as in PROTOCOL.md (default: the reference)")
      ->type_name("CMD");
  app.add_option("--corpus", arguments.corpus,
                 "folder with manifest.json (default: the one installed with this program)")
      ->type_name("DIR");
  app.add_option("--profile", arguments.profile_file,
                 "JSON that takes the place of what the adapter's capabilities say")
      ->type_name("FILE");
  app.add_option("--only", arguments.selection.ids, "only cases whose id matches this pattern; repeatable")
      ->type_name("GLOB")
      ->expected(1)
      ->take_all();
  app.add_option("--layout", arguments.selection.layouts, "only cases of this layout; repeatable")
      ->type_name("LAYOUT")
      ->expected(1)
      ->take_all();
  app.add_option("--rule", arguments.selection.rules, "only cases about this rule of FORMAT.md; repeatable")
      ->type_name("ID")
      ->expected(1)
      ->take_all();
  app.add_option("--jobs", arguments.jobs, "cases at a time (default: one a core)")
      ->type_name("N")
      ->check(CLI::Range(1u, 4096u));
  app.add_option("--timeout", arguments.timeout_seconds,
                 "limit a command, over what the adapter takes to start, in place of each case's own")
      ->type_name("SECONDS")
      ->check(CLI::PositiveNumber);
  app.add_option("--memory", arguments.memory_bytes,
                 "memory a command may use over the idle adapter, in place of each case's own")
      ->type_name("BYTES[KiB|MiB|GiB]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
  app.add_option("--shape", arguments.modes,
                 "shapes that files are put into, with commas between them: file, pipe, short-reads, read-only, offset "
                 "(default: file)")
      ->type_name("SHAPES");
  app.add_option("--seed", arguments.seed, "what short reads, offsets and mutants hang on (default: 20)")
      ->type_name("N");
  app.add_flag("--one-shot", arguments.one_shot, "start the adapter for each question, even if it can serve");
  app.add_option("--keep", arguments.kept, "keep specification, data and result of encode cases, a folder a case")
      ->type_name("DIR");
  CLI::Option* const known =
      app.add_option("--known", arguments.known_file, "failures that are expected; any other difference fails the run")
          ->type_name("FILE");
  app.add_flag("--fix-known", arguments.fix_known, "write the list of --known anew, as this run found it")
      ->needs(known);
  app.add_option("--json", arguments.json_file, "write the result as JSON")->type_name("FILE");
  app.add_option("--html", arguments.html_file, "write the result as one HTML page (needs python3 with Jinja2)")
      ->type_name("FILE");
  app.add_option("--junit", arguments.junit_file, "write the result as JUnit XML")->type_name("FILE");
  app.add_option("--repro", arguments.repro_case, "print the command that repeats this case, and run no case")
      ->type_name("CASE");
  app.add_flag("--list", arguments.list, "print the cases (id, layout, verdict, features) and run nothing");
  app.add_option("--findings", arguments.findings,
                 "write a case for each difference or sort of failing mutant into this new folder")
      ->type_name("DIR");
  add_against_options(app, arguments.against);
  add_mutate_options(app, arguments.mutate);
}

int run_conform(const ConformArguments& arguments, const fs::path& prefix, const std::atomic<bool>& cancelled) {
  const fs::path share = prefix / "share/tzmark";
  const Manifest manifest = load_manifest(arguments.corpus.empty() ? share / "corpus" : fs::path(arguments.corpus));
  const std::vector<Case> cases = select_cases(manifest, arguments.selection);
  if (!arguments.findings.empty() && !arguments.mutate.wanted() && !arguments.against.wanted()) {
    throw UsageError("--findings goes with --mutate, --mutant or --against");
  }
  if (arguments.list) {
    print_cases(cases);
    return 0;
  }
  const SuiteOptions options = suite_options(arguments, prefix);
  check_input_modes(options.input, manifest, cancelled);
  const Adapter adapter = start_adapter(arguments, prefix, cancelled);
  if (!arguments.repro_case.empty()) return print_repro(manifest, adapter, options.input, arguments.repro_case);
  if (arguments.against.wanted()) return run_against(arguments, manifest, cases, adapter, options, cancelled);
  for (const std::string& feature : stale_exclusions(manifest, adapter.profile())) {
    tell(fmt::format("the adapter lacks '{}', a feature that no case has", feature));
  }

  SuiteRun run{.manifest = &manifest,
               .adapter = &adapter,
               .selection = arguments.selection,
               .options = options,
               .started = std::chrono::system_clock::now(),
               .results = {},
               .known_problems = {}};
  if (arguments.mutate.wanted()) return run_mutations(arguments, cases, run, cancelled);
  const auto began = std::chrono::steady_clock::now();
  {
    const Progress progress(cases.size());
    run.results = run_suite(manifest, cases, adapter, run.options, cancelled, std::cref(progress));
  }
  run.elapsed = std::chrono::steady_clock::now() - began;
  if (cancelled) throw EnvironmentError("stopped");
  if (!arguments.known_file.empty()) judge_known(arguments, run);

  say("{}", text_report(run));
  const std::string json = json_report(run);
  if (!arguments.json_file.empty()) write_file(arguments.json_file, json);
  if (!arguments.junit_file.empty()) write_file(arguments.junit_file, junit_report(run));
  if (!arguments.html_file.empty()) make_page(share / "reports/render.py", json, arguments.html_file, cancelled);
  if (totals_of(run.results).ran() == 0) tell("no case ran");
  return run.passed() ? 0 : 1;
}

}  // namespace tzmark::conformance
