// tzmark tune: finds the settings that suit a storage, what limits them, and what they are called elsewhere.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <exception>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

#include "cli/bench_commands.h"
#include "cli/result_document.h"
#include "cli/run_program.h"
#include "cli/tune/export_files.h"
#include "cli/tune/served_tuning.h"
#include "cli/tune/tune_document.h"
#include "cli/tune/tune_options.h"
#include "cli/tune/tune_run.h"
#include "cli/tune/tune_summary.h"
#include "harness/interruption.h"
#include "harness/machine.h"
#include "tune/exports.h"
#include "tzmark/error.h"
#include "tzmark/io.h"
#include "tzmark/upload.h"

namespace tzmark::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Makes the directory where there is none, as tzmark bench does.
void require_directory(const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(name, error);
  std::error_code ignored;
  if (const auto status = std::filesystem::status(name, ignored); !std::filesystem::is_directory(status)) {
    throw Error(ErrorCode::kOpenFailed, std::filesystem::exists(status)
                                            ? fmt::format("{} is not a directory", name)
                                            : fmt::format("cannot make the directory {}: {}", name, error.message()));
  }
  // Otherwise the exports would refuse it when everything is measured.
  static_cast<void>(shell_quoted(std::filesystem::canonical(name).native()));
}

void add_exports(const TuneOptions& options, TuneOutcome& outcome) {
  const bool is_served = !outcome.url.empty();
  std::vector<ExportedTask> tasks;
  for (const TaskOutcome& found : outcome.tasks) {
    if (found.recommended() == nullptr) continue;
    tasks.push_back({.task = std::string(name_of(found.task)),
                     .setting = found.recommended()->setting,
                     .directory = is_served ? outcome.url : outcome.probe.directory,
                     .bytes = outcome.bytes,
                     .memory_bytes = options.memory_limit_bytes,
                     .is_synced = true,
                     .to_device = options.memory == "device"});
  }
  if (tasks.empty()) return;
  outcome.exports.push_back(tzmark_profile(tasks));
  for (const ExportedTask& task : tasks) {
    auto exports = is_served ? exports_of_served(task, is_s3_url(options.directory)) : exports_of(task);
    std::ranges::move(exports, std::back_inserter(outcome.exports));
  }
}

void run(const TuneOptions& options, const std::vector<std::string>& command) {
  const auto begin = Clock::now();
  const std::string started_at = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  const bool is_served = is_url(options.directory);
  if (!is_served) require_directory(options.directory);
  std::optional<ResultFile> file;
  if (!options.json_file.empty()) file.emplace(options.json_file);
  std::optional<ExportFiles> export_files;
  if (!options.export_directory.empty()) export_files.emplace(options.export_directory, options.force);
  TuneOutcome outcome;
  std::exception_ptr failure;
  int signal = 0;
  nlohmann::json machine;
  {
    const RoundProgress progress(options.progress);
    try {
      machine = machine_facts(options.directory);
      (is_served ? tune_served : run_tune)(options, begin, progress.callback(), outcome);
    } catch (const Interrupted&) {
      signal = Interruption::number();
      outcome.warnings.emplace_back("interrupted: only what was measured until then is here");
    } catch (const std::exception& error) {
      // What was measured until then is kept, if something was. std::filesystem throws errors of its own.
      if (std::ranges::none_of(outcome.tasks, [](const TaskOutcome& t) { return t.recommended() != nullptr; })) throw;
      failure = std::current_exception();
      outcome.warnings.push_back(error.what());
    }
  }
  add_exports(options, outcome);
  if (std::ranges::any_of(outcome.tasks, [](const TaskOutcome& t) { return t.task == TuneTask::kLoadCold; })) {
    std::ranges::move(cold_read_warnings(machine), std::back_inserter(outcome.warnings));
  }
  say("{}", tune_summary(outcome));
  // First, for an export that cannot be written must not lose what was measured.
  if (file) file->commit(tune_document(outcome, options, command, started_at, machine, Clock::now() - begin));
  if (export_files) {
    for (const std::string& what : export_files->write(outcome.exports)) say("{}\n", what);
  }
  if (failure) std::rethrow_exception(failure);
  // The caller, a shell for example, learns by which signal the program ended.
  if (signal != 0) static_cast<void>(::raise(signal));
}

// What would be chosen for a directory has no meaning for a file that is there, and is not ignored.
void require_served_options(const TuneOptions& options, const CLI::App& tune) {
  for (const char* name : {"--cache", "--workload", "--scale", "--io", "--sustain", "--predict", "--memory"}) {
    if (tune.count(name) == 0) continue;
    throw Error(ErrorCode::kUsage, fmt::format("{} is for a directory, and a URL names a file that is there", name));
  }
  if (options.goal == "save") throw Error(ErrorCode::kUsage, "files on a server are only loaded: --goal load");
}

std::string workload_list() {
  std::string names;
  for (const WorkloadInfo& workload : workloads())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", workload.name);
  return names;
}

}  // namespace

void add_tune(CLI::App& app, const std::vector<std::string>& command) {
  auto options = std::make_shared<TuneOptions>();
  CLI::App* tune = app.add_subcommand("tune", "Find the settings that suit a storage, and what limits them");
  const CLI::AsNumberWithUnit to_seconds(std::map<std::string, std::uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}});
  tune->add_option("DIR", options->directory,
                   "Directory on the storage to tune; a temporary subdirectory is created and removed. Or the URL of a "
                   ".tensors file, for loads from a server")
      ->required();
  tune->add_option("--budget", options->budget_s, "Time for everything but the sustained phase, such as 30s or 10m")
      ->transform(to_seconds)
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{86'400}))
      ->default_str("120s");
  tune->add_option("--goal", options->goal, "What to tune: load, save, both")
      ->check(CLI::IsMember({"load", "save", "both"}))
      ->capture_default_str();
  tune->add_option("--cache", options->cache, "State of the page cache before loads: cold, warm, both")
      ->check(CLI::IsMember({"cold", "warm", "both"}))
      ->capture_default_str();
  tune->add_option("--memory", options->memory, "Memory that loads end in: host, device (of GPU 0, with --goal load)")
      ->check(CLI::IsMember({"host", "device"}))
      ->capture_default_str();
  tune->add_option("--workload", options->workload, "Model whose tensors are moved: " + workload_list())
      ->capture_default_str();
  tune->add_option("--scale", options->scale_bytes,
                   "Scale the workload down to this many bytes (default: what the storage moves in 10 to 200 ms)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1} << 20, std::uint64_t{1} << 40));
  tune->add_option("--io", options->io, "I/O paths to try, comma-separated (default: all available, without variants)")
      ->delimiter(',');
  tune->add_option("--memory-limit", options->memory_limit_bytes,
                   "Bytes in flight that a loader may hold besides the tensors (default: no limit)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{65'536}, std::uint64_t{1} << 40));
  tune->add_option("--verify", options->verification, "Hashes that loads verify and saves store: none, crc32, both")
      ->check(CLI::IsMember({"none", "crc32", "both"}))
      ->capture_default_str();
  tune->add_option("--sustain", options->sustain_s,
                   "Afterwards, run the recommended settings for this time each, such as 60s, and find throttling")
      ->transform(to_seconds)
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{86'400}));
  tune->add_option("--predict", options->predictions,
                   "Predict the times of these workloads, comma-separated: NAME (the full model) or NAME/SIZE")
      ->delimiter(',');
  tune->add_option("--seed", options->seed, "Seed of the search")->capture_default_str();
  tune->add_option("--json", options->json_file, "Write the full result to this file, in tzmark's own schema");
  tune->add_option("--export-dir", options->export_directory,
                   "Write the profile and the exports for other programs into this directory; existing files are kept");
  tune->add_flag("--force", options->force, "With --export-dir: replace existing files");
  tune->add_flag("--progress", options->progress, "Show progress on stderr even without a terminal");
  tune->callback([options, &command, tune] {
    if (is_url(options->directory)) require_served_options(*options, *tune);
    if (options->memory == "device" && options->goal != "load") {
      throw Error(ErrorCode::kUsage, "saves from GPU memory are not tuned: --memory device needs --goal load");
    }
    run(*options, command);
  });
}

}  // namespace tzmark::bench
