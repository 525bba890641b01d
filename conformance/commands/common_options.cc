// The options that several commands share; see common_options.h.
#include "commands/common_options.h"

#include <fmt/format.h>

#include "program/local_name.h"
#include "runner/command_line.h"
#include "runner/console.h"
#include "runner/errors.h"
#include "runner/file_format.h"
#include "runner/http_server.h"
#include "runner/process.h"
#include "runner/scratch_directory.h"

namespace tzmark::conformance {
namespace {

namespace fs = std::filesystem;

void add_patterns(CLI::App& app, const char* name, std::vector<std::string>& values, const char* type,
                  const char* text) {
  app.add_option(name, values, text)->type_name(type)->expected(1)->take_all();
}

}  // namespace

Adapter AdapterOptions::start(const fs::path& prefix, const std::atomic<bool>& cancelled) const {
  const std::vector<std::string> argv =
      command.empty() ? std::vector<std::string>{prefix / "libexec/tzmark/tzmark-adapter-reference"}
                      : split_command(command);
  std::optional<Profile> profile;
  if (!profile_file.empty()) profile = profile_of(read_json(profile_file));
  Permissions permissions{.network = network};
  for (const std::string& path : writable) {
    std::error_code error;
    permissions.writable.push_back(fs::canonical(path, error));
    if (error) throw UsageError(fmt::format("--allow-writes {}: {}", path, error.message()));
  }
  return Adapter(argv, cancelled, one_shot ? Form::kOneShot : Form::kAny, std::move(profile), std::move(permissions));
}

std::vector<std::string> AdapterOptions::permitting_words() const {
  std::vector<std::string> words;
  for (const std::string& path : writable) words.insert(words.end(), {"--allow-writes", path});
  if (network) words.emplace_back("--allow-network");
  return words;
}

void add_adapter_options(CLI::App& app, AdapterOptions& options) {
  app.add_option("--adapter", options.command,
                 "command of the implementation under test, as in PROTOCOL.md (default: the reference)")
      ->type_name("CMD");
  app.add_flag("--one-shot", options.one_shot, "start the adapter for each question, even if it can serve");
  app.add_option("--allow-writes", options.writable,
                 "let the adapter write to this file, or below this directory, as to its temporary one; repeatable")
      ->type_name("PATH")
      ->check(why_not_local)
      ->expected(1)
      ->take_all();
  app.add_flag("--allow-network", options.network, "let the adapter use the network");
}

CLI::Validator seconds_validator() {
  return {[](const std::string& text) {
            double seconds = 0;
            const bool good = CLI::detail::lexical_cast(text, seconds) && seconds >= 1e-9 && seconds <= 1e9;
            return good ? std::string() : "not a positive number of seconds: " + text;
          },
          ""};
}

void add_limit_options(CLI::App& app, LimitOverrides& limits, const std::string& replaced) {
  app.add_option_function<double>(
         "--timeout", [&limits](double seconds) { limits.elapsed_max = nanoseconds_of(seconds); },
         "time limit of a command, on top of what the adapter takes to start" + replaced)
      ->type_name("SECONDS")
      ->check(seconds_validator());
  app.add_option("--memory", limits.memory_max_bytes,
                 "memory limit of a command, on top of what the idle adapter uses" + replaced)
      ->type_name("BYTES[KiB|MiB|GiB]")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber);
}

void add_selection_options(CLI::App& app, Selection& selection) {
  add_patterns(app, "--only", selection.ids, "GLOB",
               "only cases whose id matches this pattern, or with '!' in front, does not; repeatable");
  add_patterns(app, "--layout", selection.layouts, "LAYOUT", "only cases of this layout; repeatable");
  add_patterns(app, "--rule", selection.rules, "ID",
               "only cases about this rule, such as TZR-IDX-012 or ST-014; repeatable");
  app.add_flag("--quick", selection.quick, "leave out the cases of large files (large-*)");
}

void add_policy_options(CLI::App& app, PolicyOptions& options) {
  add_patterns(app, "--policy", options.settings, "NAME=accept|reject",
               "require this answer where the format leaves readers the choice NAME; repeatable");
  app.add_flag("--strict", options.strict, "require tzmark's own answers to all choices, but for those of --policy");
}

void add_corpus_options(CLI::App& app, CorpusOptions& corpus) {
  CLI::Option* format =
      app.add_option("--format", corpus.format,
                     "the format whose installed cases are used: " + format_names() + " (default: tensorizer)")
          ->type_name("NAME");
  app.add_option("--corpus", corpus.directory, "directory with manifest.json (default: the installed cases)")
      ->type_name("DIR")
      ->check(why_not_local)
      ->excludes(format);
}

void add_json_option(CLI::App& app, std::string& json_file) {
  app.add_option("--json", json_file, "write the result as JSON")->type_name("FILE")->check(why_not_local);
}

InputModeOptions RunOptions::input(const fs::path& prefix) const {
  return {.modes = parse_input_modes(input_modes.value_or("file")),
          .sampled = {},
          .seed = seed,
          .tools = prefix / "libexec/tzmark"};
}

std::vector<std::string> RunOptions::asking_words(const std::string& command) const {
  std::vector<std::string> words = {"tzmark", command};
  if (!adapter.command.empty()) words.insert(words.end(), {"--adapter", adapter.command});
  if (!adapter.profile_file.empty()) words.insert(words.end(), {"--profile", adapter.profile_file});
  if (adapter.one_shot) words.emplace_back("--one-shot");
  const std::vector<std::string> permitting = adapter.permitting_words();
  words.insert(words.end(), permitting.begin(), permitting.end());
  for (const std::string& setting : policy.settings) words.insert(words.end(), {"--policy", setting});
  if (policy.strict) words.emplace_back("--strict");
  if (input_modes) words.insert(words.end(), {"--shape", *input_modes});
  return words;
}

std::vector<std::string> RunOptions::repeating_words(const std::string& command) const {
  std::vector<std::string> words = asking_words(command);
  if (!corpus.directory.empty()) {
    words.insert(words.end(), {"--corpus", corpus.directory});
  } else if (corpus.format != CorpusOptions().format) {
    words.insert(words.end(), {"--format", corpus.format});
  }
  for (const std::string& pattern : selection.ids) words.insert(words.end(), {"--only", pattern});
  for (const std::string& layout : selection.layouts) words.insert(words.end(), {"--layout", layout});
  for (const std::string& rule : selection.rules) words.insert(words.end(), {"--rule", rule});
  if (selection.quick) words.emplace_back("--quick");
  return words;
}

void add_run_options(CLI::App& app, RunOptions& options, const char* seed_text) {
  add_adapter_options(app, options.adapter);
  app.add_option("--profile", options.adapter.profile_file, "JSON file that replaces the profile of the adapter")
      ->type_name("FILE")
      ->check(why_not_local);
  add_corpus_options(app, options.corpus);
  add_selection_options(app, options.selection);
  app.add_option("--jobs", options.jobs, "cases at a time (default: one per core)")
      ->type_name("N")
      ->check(CLI::Range(1u, 4096u));
  add_limit_options(app, options.limits, " (default: that of each case)");
  app.add_option("--seed", options.seed, seed_text)->type_name("N");
  app.add_option("--shape", options.input_modes,
                 "input modes, separated by commas: " + input_mode_names() + " (default: file)")
      ->type_name("MODES");
  add_json_option(app, options.json_file);
}

void check_input_modes(const InputModeOptions& input, const std::atomic<bool>& cancelled) {
  if (const auto served = std::ranges::find_if(input.modes, is_served); served != input.modes.end()) {
    try {
      HttpServer().check_reachable();
    } catch (const EnvironmentError& error) {
      throw UnavailableError(fmt::format("the input mode {}: {}", name_of(*served), error.what()));
    }
  }
  if (std::ranges::find(input.modes, InputMode::kReadOnly) == input.modes.end()) return;
  // Where files to ask about are put.
  const ScratchDirectory temporary;
  std::vector<std::string> command = read_only_prefix(input, temporary.path());
  command.push_back("true");
  const ProcessResult process = run_process(command, {}, cancelled);
  if (process.end == ProcessEnd::kExited && process.exit_status == 0) return;
  throw UnavailableError(fmt::format("the input mode read-only: {}", one_line(process.stderr_tail, 1000)));
}

Manifest load_corpus(const CorpusOptions& corpus, const fs::path& prefix) {
  const FileFormat& format = format_of_name(corpus.format);
  if (!corpus.directory.empty()) return load_manifest(corpus.directory);
  const fs::path installed = prefix / format.corpus;
  if (!fs::exists(installed)) {
    throw EnvironmentError(fmt::format(
        "the corpus is not installed: there is no {}. It is a package of its own: pip install 'tzmark[corpus]', or "
        "apt-get install tzmark-corpus",
        installed.string()));
  }
  return load_manifest(installed);
}

void warn_of_stale_exclusions(const Manifest& manifest, const Profile& profile) {
  for (const std::string& feature : stale_exclusions(manifest, profile)) {
    tell(fmt::format("the adapter lacks '{}', a feature that no case has", feature));
  }
}

}  // namespace tzmark::conformance
