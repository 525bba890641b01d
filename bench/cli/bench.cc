// tzmark bench, and tzmark bench soak: all combinations of paths and parameters over one workload. Other subcommands
// have files of their own.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "cli/bench_commands.h"
#include "cli/bench_output.h"
#include "cli/bench_profile.h"
#include "cli/matrix.h"
#include "cli/result_table.h"
#include "cli/steady.h"
#include "harness/cgroup.h"
#include "harness/interruption.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

void list_io() {
  for (const IoPath& path : io_paths()) {
    const std::string reason = path.why_unavailable();
    say("{:17} {}\n{:17} {}\n", path.name, path.summary, "", reason.empty() ? "available" : "not available: " + reason);
  }
}

bool is_ours(const Measured& measured) {
  const std::string& subject = measured.description().subject;
  return subject == "codec" || subject == "raw";
}

// Throws if a subject failed, nothing of a path chosen by name could be measured, or the run has no result at all. What
// this machine lacks otherwise is a line of the result.
void throw_problem_of(const std::vector<Measured>& all, const BenchOptions& options) {
  const auto count = std::ranges::count(all, true, &Measured::has_failed);
  if (count > 0) {
    const Measured& first = *std::ranges::find(all, true, &Measured::has_failed);
    throw Error(ErrorCode::kResource, fmt::format("{} of {} could not be measured; the first is {}: {}", count,
                                                  all.size(), first.description().id(), first.why));
  }
  // By the requested path, because only a subject that was verified knows the actual one.
  std::map<std::string, std::pair<std::size_t, const Measured*>> paths;  // measured subjects, and one that is not
  for (const Measured& m : all) {
    if (m.description().subject == "ceiling" || (!options.io.empty() && !is_ours(m))) continue;
    auto& [measured, missing] = paths[options.io.empty() ? "" : m.description().io_requested];
    m.samples.empty() ? static_cast<void>(missing = &m) : static_cast<void>(++measured);
  }
  for (const auto& [io, path] : paths) {
    const auto& [measured, missing] = path;
    if (measured > 0 || missing == nullptr) continue;
    throw Error(ErrorCode::kUnavailable, io.empty() ? fmt::format("nothing could be measured: {}", missing->why)
                                                    : fmt::format("I/O path {}: {}", io, missing->why));
  }
}

struct MatrixRun {
  BenchOptions options = {};
  ResultOptions result = {};
  bool list_io = false;
  unsigned rounds = 7;
  std::uint64_t seed = 1, duration_s = 0;  // duration 0: rounds instead
};

void run_matrix(const MatrixRun& given, BenchOutput& output) {
  const BenchOptions& options = given.options;
  const SharedContent content = matrix_content(options);
  Workplace place(options.directory);
  std::vector<Measured> measured = matrix_subjects(options, place, content);
  unsigned rounds = 0;
  {
    const RoundProgress progress(given.result.progress);
    const Interruption interruption;
    const auto stop = [] { return Interruption::number() != 0; };
    if (given.duration_s == 0) {
      rounds = run_rounds(measured,
                          {.rounds = given.rounds, .seed = given.seed, .progress = progress.callback(), .stop = stop});
    } else {
      const nlohmann::json& l3_bytes = output.document.machine()["l3_bytes"];
      note_caches(measured, options.cache == "warm",
                  l3_bytes.is_null() ? std::nullopt : std::optional(l3_bytes.get<std::uint64_t>()));
      run_for(measured, {.duration = std::chrono::seconds(given.duration_s),
                         .ceiling_samples = given.rounds,
                         .directory = options.directory,
                         .progress = progress.callback(),
                         .stop = stop});
      output.document.add_duration(given.duration_s);
    }
    output.signal = Interruption::number();
  }
  if (output.signal != 0) {
    const std::string when = given.duration_s == 0 ? fmt::format(" after {} of {} rounds", rounds, given.rounds) : "";
    output.document.add_interruption(fmt::format("interrupted{}: only what was measured until then is here", when));
  }
  output.document.add_workload(content->workload());
  output.add(measured);
  if (!output.google) given.duration_s == 0 ? print_results(measured) : say("{}", steady_table(measured));
  output.finish(rounds, given.seed);
  if (output.signal == 0) throw_problem_of(measured, options);
}

void run(MatrixRun given, const CLI::App& app, const std::vector<std::string>& command) {
  BenchOptions& options = given.options;
  use_profile(app, options);
  constexpr std::uint64_t kScaleBytes = 256 << 20;
  // Each of the four processes of the peers holds the tensors that it writes, and one those that it has read.
  const DataCopies copies = options.peers ? DataCopies{.needed = 7, .comfortable = 10} : DataCopies();
  const DataSize size = data_size(options.scale_bytes, kScaleBytes, copies, cgroup_limits());
  options.scale_bytes = size.bytes;
  if (!given.result.json_file.empty()) refuse_to_replace(given.result.json_file, {options.profile_file});
  if (options.verifications.empty()) options.verifications = {"none"};
  BenchOutput output(given.result, command, options.directory, size);
  if (!options.no_ceilings) output.note_small_ceilings(std::ranges::max(options.threads));
  run_matrix(given, output);
}

// Adds what the matrix has in common, whether it is measured in rounds or for a time.
void add_matrix(CLI::App& app, MatrixRun& given) {
  BenchOptions& options = given.options;
  add_subjects(app, options, {.scale = "256MiB", .io = "all available, without variants", .verify = "none"});
  add_other_subjects(app, options);
  add_profile(app, options);
  add_result(app, given.result);
  add_format(app, given.result.format);
}

void add_soak(CLI::App& bench, const std::vector<std::string>& command) {
  auto given = std::make_shared<MatrixRun>(MatrixRun{.duration_s = 60});
  CLI::App& soak = *bench.add_subcommand("soak", "Run each subject for a time, and test whether its throughput lasts");
  soak.add_option("--duration", given->duration_s, "Time of each subject, such as 60s or 10m")
      ->transform(to_seconds())
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{86'400}))
      ->default_str("60s");
  add_directory(soak, given->options.directory)->required();
  add_matrix(soak, *given);
  soak.callback([given, &soak, &command] { run(*given, soak, command); });
}

}  // namespace

void add_bench(CLI::App& app, const std::vector<std::string>& command, int& status) {
  auto given = std::make_shared<MatrixRun>();
  CLI::App& bench =
      *app.add_subcommand("bench", "Measure I/O paths, the codec on top of them, and other implementations");
  bench.require_subcommand(0, 1);
  bench.add_flag("--list-io", given->list_io, "List the I/O paths and why any are unavailable");
  add_directory(bench, given->options.directory);
  bench.add_option("--rounds", given->rounds, "Samples per subject; an interval needs 6 or more")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  add_seed(bench, given->seed);
  add_matrix(bench, *given);
  const std::vector<CLI::Option*> of_matrix = bench.get_options();
  add_check(bench, command, status);
  add_against(bench, command, status);
  add_soak(bench, command);
  add_open(bench);
  add_remote(bench, command);
  add_checkpoint(bench, command, status);
  bench.add_subcommand("cluster",
                       "Measure with the ranks of an MPI program how fast a model reaches, or leaves, all of them");
  add_worker(bench);
  for (CLI::App* const subcommand : bench.get_subcommands(nullptr)) {
    for (CLI::Option* const option : of_matrix) subcommand->excludes(option);
  }
  bench.callback([given, &bench, &command] {
    if (!bench.get_subcommands().empty()) return;
    if (given->list_io) return list_io();
    if (given->options.directory.empty()) {
      throw Error(ErrorCode::kUsage, "--dir names the directory whose storage is measured");
    }
    run(*given, bench, command);
  });
}

}  // namespace tzmark::bench
