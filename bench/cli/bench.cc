// tzmark bench: all combinations of paths and parameters over one workload, or the checks.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/against.h"
#include "cli/bench_commands.h"
#include "cli/bench_profile.h"
#include "cli/bounds.h"
#include "cli/check.h"
#include "cli/data_size.h"
#include "cli/google_document.h"
#include "cli/matrix.h"
#include "cli/result_document.h"
#include "cli/run_program.h"
#include "cli/steady.h"
#include "cli/worker.h"
#include "harness/ceilings.h"
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

std::string rate_text(const Interval& rate) {
  const std::string spread = rate.low ? fmt::format("{:.2f} - {:.2f}", *rate.low / 1e9, *rate.high / 1e9) : "-";
  return fmt::format("{:7.2f} GB/s {:>15}", rate.median / 1e9, spread);
}

void print_result(const std::string& name, const Interval& rate, const std::string& durable, const std::string& bound) {
  say("{:76} {} {:>8}  {}\n", name, rate_text(rate), durable, bound);
}

void print_results(const std::vector<Measured>& measured) {
  say("{:76} {:>12} {:>15} {:>8}  {}\n", "what", "rate", "95 %", "to disk", "bound by");
  for (const Measured& m : measured) {
    if (m.description().subject == "ceiling") continue;
    const std::vector<std::string> notes = notes_of(m);
    if (m.samples.empty()) {
      say("{:76} {}\n", m.description().id(), notes.back());
      continue;
    }
    const auto bound = bound_by(m, measured);
    const bool synced = m.samples.front().sync_ns.has_value();
    print_result(m.description().id(), median_interval(m.rates()),
                 synced ? fmt::format("{:.2f}", median_interval(m.durable_rates()).median / 1e9) : "",
                 bound ? fmt::format("{} ({:.0f} %)", bound->rung, 100 * bound->share) : "");
    for (const std::string& note : notes) {
      if (note.find("made in place") != std::string::npos) say("  {}\n", note);
    }
  }
  for (const CeilingRate& ceiling : ceilings_of(measured)) {
    if (ceiling.rung.starts_with("path-") || ceiling.rung.starts_with("device-")) continue;
    print_result(fmt::format("ceiling {} t{}", ceiling.rung, ceiling.threads), ceiling.rate, "", "");
  }
}

// The documents that a run fills, and how it ends once they are out. google: only if that format was chosen.
struct Output {
  Document document;
  std::optional<GoogleDocument> google;
  unsigned rounds = 0;                          // finished
  int signal = 0;                               // that ended it
  std::optional<Error> problem = std::nullopt;  // of the subjects

  void add(const std::vector<Measured>& measured) {
    document.add(measured);
    if (google) google->add(measured);
  }
};

bool is_ours(const Measured& measured) {
  const std::string& subject = measured.description().subject;
  return subject == "codec" || subject == "raw";
}

// A subject that failed, a path chosen by name of which nothing could be measured, or a run without any result. What
// this machine lacks otherwise is a line of the result.
std::optional<Error> problem_of(const std::vector<Measured>& all, const BenchOptions& options) {
  const auto first_line = [&](ErrorCode code, std::size_t count, const Measured& first) {
    return Error(code, fmt::format("{} of {} could not be measured; the first is {}: {}", count, all.size(),
                                   first.description().id(), first.why));
  };
  const auto failed = std::ranges::find(all, true, &Measured::has_failed);
  if (failed != all.end()) {
    const auto count = std::ranges::count(all, true, &Measured::has_failed);
    return first_line(ErrorCode::kResource, static_cast<std::size_t>(count), *failed);
  }
  // By the requested path, because only a subject that was verified knows the actual one.
  std::map<std::string, std::pair<std::size_t, const Measured*>> paths;  // measured subjects, and one that is not
  for (const Measured& m : all) {
    if (m.description().subject == "ceiling" || (!options.io.empty() && !is_ours(m))) continue;
    auto& [count, missing] = paths[options.io.empty() ? "" : m.description().io_requested];
    m.samples.empty() ? static_cast<void>(missing = &m) : static_cast<void>(++count);
  }
  for (const auto& [io, path] : paths) {
    const auto& [count, missing] = path;
    if (count > 0 || missing == nullptr) continue;
    return Error(ErrorCode::kUnavailable, io.empty() ? fmt::format("nothing could be measured: {}", missing->why)
                                                     : fmt::format("I/O path {}: {}", io, missing->why));
  }
  return {};
}

void run_matrix(const BenchOptions& options, Output& output) {
  Workplace place(options.directory);
  const SharedContent content = matrix_content(options);
  std::vector<Measured> measured = matrix_subjects(options, place, content);
  {
    const RoundProgress progress(options.progress);
    const Interruption interruption;
    const auto stop = [] { return Interruption::number() != 0; };
    if (options.duration_s == 0) {
      output.rounds = run_rounds(
          measured, {.rounds = options.rounds, .seed = options.seed, .progress = progress.callback(), .stop = stop});
    } else {
      const nlohmann::json& l3_bytes = output.document.machine()["l3_bytes"];
      note_caches(measured, options.cache == "warm",
                  l3_bytes.is_null() ? std::nullopt : std::optional(l3_bytes.get<std::uint64_t>()));
      run_for(measured, {.duration = std::chrono::seconds(options.duration_s),
                         .ceiling_samples = options.rounds,
                         .directory = options.directory,
                         .progress = progress.callback(),
                         .stop = stop});
      output.document.add_duration(options.duration_s);
    }
    output.signal = Interruption::number();
  }
  output.problem = problem_of(measured, options);
  if (output.signal != 0) {
    const std::string when =
        options.duration_s == 0 ? fmt::format(" after {} of {} rounds", output.rounds, options.rounds) : "";
    output.document.add_interruption(fmt::format("interrupted{}: only what was measured until then is here", when));
  }
  output.document.add_workload(content->workload());
  output.add(measured);
  if (output.google) return;
  options.duration_s == 0 ? print_results(measured) : say("{}", steady_table(measured));
}

void run_all_checks(const BenchOptions& options, Output& output, int& status) {
  std::vector<RatioCheck> all;
  MachineConditions conditions;
  {
    const RoundProgress progress(options.progress);
    output.rounds = options.rounds;
    CheckOptions checks{.items = options.items};
    if (options.names_workload) checks.workload = options.workload;
    if (!options.io.empty()) checks.io = chosen_paths(options.io);
    for (const std::string& io : checks.io) {
      if (!path_traits(io).moves_device_memory) continue;
      throw Error(ErrorCode::kUsage, fmt::format("--io: items 1, 2 and 6 are of host memory; item 7 measures {}", io));
    }
    checks.scale_bytes = options.scale_bytes;
    checks.gpu_set_bytes = options.gpu_set_bytes;
    checks.contests.budget = std::chrono::seconds(options.budget_s);
    checks.contests.seed = options.seed;
    checks.contests.progress = progress.callback();
    checks.contests.stop = [] { return Interruption::number() != 0; };
    if (options.limits_laps) checks.contests.laps_max = options.rounds;
    Workplace place(options.directory);
    const Interruption interruption;
    conditions = run_checks(place, checks, [&](const auto& workloads, const auto& measured, const auto& concluded) {
      for (const Workload& workload : workloads) output.document.add_workload(workload);
      output.add(measured);
      output.document.add(concluded);
      all.insert(all.end(), concluded.begin(), concluded.end());
    });
    output.signal = Interruption::number();
  }
  if (output.signal != 0) {
    output.document.add_interruption("interrupted: only what was decided until then is here");
  }
  output.document.add(conditions);
  std::ranges::stable_sort(all, {}, &RatioCheck::item);
  if (!output.google) {
    say("{}", conditions_text(conditions));
    say("{}", check_table(all));
  }
  const auto failed = [](const RatioCheck& check) { return check.verdict == BoundVerdict::kFail; };
  if (std::ranges::any_of(all, failed)) status = 1;
}

// Of the workload. The checks read files of eight times as much, and hold several sets of tensors.
constexpr std::uint64_t kMatrixBytes = 256 << 20, kCheckedBytes = 128 << 20;

DataCopies copies_of(const BenchOptions& options) {
  if (options.check) return {.needed = 10, .comfortable = 26};
  // Each of the four processes of the peers holds the tensors that it writes, and one those that it has read.
  if (options.peers) return {.needed = 7, .comfortable = 10};
  return {};
}

// Working sets that a limit makes smaller may fit into a cache.
std::string note_on_ceilings(const BenchOptions& options) {
  const CgroupLimits limits = cgroup_limits();
  const unsigned threads = thread_count(std::ranges::max(options.threads));
  const std::size_t bytes = working_set_bytes(threads, limits);
  if (options.no_ceilings || bytes == kWorkingSetBytes) return "";
  return fmt::format("ceilings work on {} MiB per thread instead of {} MiB: {}", bytes >> 20, kWorkingSetBytes >> 20,
                     limit_text(limits));
}

void run(BenchOptions options, const std::vector<std::string>& command, int& status) {
  if (options.list_io) return list_io();
  if (options.directory.empty()) throw Error(ErrorCode::kUsage, "--dir names the directory whose storage is measured");
  if (!options.against.empty()) return run_against(options, command, status);
  const DataSize size =
      data_size(options.scale_bytes, options.check ? kCheckedBytes : kMatrixBytes, copies_of(options), cgroup_limits());
  options.scale_bytes = size.bytes;
  if (options.is_worker) return serve_samples(options);
  std::optional<ResultFile> file;
  if (!options.json_file.empty()) {
    refuse_to_replace(options.json_file, {options.profile_file, options.against});
    file.emplace(options.json_file);
  }
  if (options.verifications.empty()) options.verifications = {"none"};
  // A failure shows when the directory is first used.
  std::error_code ignored;
  std::filesystem::create_directories(options.directory, ignored);
  Output output{Document(command, options.directory), {}};
  if (!size.note.empty()) output.document.add_note(size.note);
  if (const std::string note = note_on_ceilings(options); !note.empty()) output.document.add_note(note);
  if (options.format == "google") output.google.emplace(command);
  options.check ? run_all_checks(options, output, status) : run_matrix(options, output);
  if (!output.google) {
    for (const std::string& warning : output.document.warnings()) say("note: {}\n", warning);
  }
  if (file) file->commit(output.document.finish(output.rounds, options.seed));
  if (output.google) print(json_text(output.google->finish()));
  // The caller, a shell for example, learns by which signal the program ended.
  if (output.signal != 0) {
    static_cast<void>(::raise(output.signal));
    return;
  }
  if (output.problem) throw Error(*output.problem);
}

std::string workload_names() {
  std::string names;
  for (const WorkloadInfo& workload : workloads())
    names += fmt::format("{}{}", names.empty() ? "" : ", ", workload.name);
  return names;
}

}  // namespace

void add_bench(CLI::App& app, const std::vector<std::string>& command, int& status) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* bench =
      app.add_subcommand("bench", "Measure I/O paths, the codec on top of them, and other implementations");
  bench->add_flag("--list-io", options->list_io, "List the I/O paths and why any are unavailable");
  bench->add_option("--dir", options->directory,
                    "Directory on the storage to measure; a temporary subdirectory is created and removed");
  bench
      ->add_option("--workload", options->workload,
                   "Model whose tensors are moved (with --check: by items 8 and 9): " + workload_names())
      ->capture_default_str();
  bench
      ->add_option(
          "--scale", options->scale_bytes,
          "Scale the workload down to this many bytes (default 256MiB; with --check 128MiB, half of which is written)")
      ->transform(CLI::AsSizeValue(false));
  bench
      ->add_option(
          "--io", options->io,
          "I/O paths, comma-separated (default: all available, without variants; with --check: six, four and all "
          "for items 1, 2 and 6)")
      ->delimiter(',');
  bench->add_option("--op", options->operations, "Operations: read, write")
      ->delimiter(',')
      ->check(CLI::IsMember({"read", "write"}))
      ->capture_default_str();
  bench->add_option("--layout", options->layout, "Layout of the files")->capture_default_str();
  bench
      ->add_option("--block", options->block_bytes,
                   "Bytes per transfer, comma-separated (default: what suits the I/O path)")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 30));
  bench
      ->add_option("--depth", options->queue_depths,
                   "Queue depth: transfers in flight over all threads; 0 = the default of the path")
      ->delimiter(',')
      ->check(CLI::Range(0U, 4096U));
  bench->add_option("--threads", options->threads, "Compute threads; 0 = one per core")
      ->delimiter(',')
      ->check(CLI::Range(0U, 1024U));
  bench
      ->add_option("--verify", options->verifications,
                   "Hashes to store and to verify: none, crc32, both (default none; with --against none,both)")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "crc32", "both"}));
  bench->add_flag("--encrypt", options->encrypt, "Encrypt the files; excludes --verify crc32");
  bench
      ->add_option("--cache", options->cache,
                   "State of the page cache before a read: auto (cold for direct paths, else warm), warm, cold")
      ->check(CLI::IsMember({"auto", "warm", "cold"}))
      ->capture_default_str();
  bench
      ->add_option("--memory", options->memory,
                   "Destination of reads: auto (both kinds of new memory), thp (new memory, huge pages), small-pages, "
                   "sink, or device (GPU memory, also the source of writes)")
      ->check(CLI::IsMember({"auto", "thp", "small-pages", "sink", "device"}))
      ->capture_default_str();
  bench
      ->add_option("--compute", options->compute,
                   "With --memory device: verify and decrypt reads on the host, the device, or auto")
      ->check(CLI::IsMember({"auto", "host", "device"}))
      ->capture_default_str();
  bench
      ->add_option("--gpu-set", options->gpu_set_bytes,
                   "With --memory device or --check: working set of the GPU ceilings (default 1GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 40));
  bench->add_flag("--no-raw", options->no_raw, "Leave out the raw transfers, which are the ceiling of each path");
  bench->add_flag("--no-ceilings", options->no_ceilings,
                  "Leave out the ceilings of single steps: samples follow each other without computations in between");
  bench->add_flag("--fio", options->fio, "Also measure fio, with the parameters of the direct paths");
  bench->add_flag("--peers", options->peers,
                  "Also measure tensorizer, safetensors (scripts/peers installs them) and the Python module");
  CLI::Option* rounds =
      bench
          ->add_option("--rounds", options->rounds,
                       "Samples per subject; an interval needs 6 or more. With --check: at most so many laps per check")
          ->check(CLI::PositiveNumber)
          ->capture_default_str();
  bench->add_option("--seed", options->seed, "Seed of the order within rounds")->capture_default_str();
  CLI::Option* check = bench->add_flag("--check", options->check, "Run the performance checks; exit 1 if one fails");
  const CLI::AsNumberWithUnit to_seconds(std::map<std::string, std::uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}});
  CLI::Option* budget =
      bench
          ->add_option(
              "--budget", options->budget_s,
              "With --check or --against: time for all lines together, such as 90s or 10m; each runs until it is "
              "decided")
          ->transform(to_seconds)
          ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
          ->default_str("10m");
  CLI::Option* against =
      bench
          ->add_option(
              "--against", options->against,
              "Another tzmark, such as the last release: runs both builds in turn until it is decided whether this "
              "one is slower; exit 1 if it is")
          ->check(CLI::ExistingFile);
  bench
      ->add_option("--duration", options->duration_s,
                   "Instead of rounds: run each subject for this time, such as 60s or 10m, and test whether its "
                   "throughput lasts")
      ->transform(to_seconds)
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{86'400}))
      ->excludes(rounds)
      ->excludes(check)
      ->excludes(budget)
      ->excludes(against);
  bench
      ->add_option("--effect", options->effect,
                   "With --against: the slow-down to find, as a fraction; smaller ones may go unnoticed")
      ->check(within(0.006, 0.5))
      ->capture_default_str();
  bench->add_flag("--force", options->force, "With --against: compare builds that measure in different ways");
  bench->add_flag("--worker", options->is_worker, "Take samples for --against")->group("");
  bench->add_option("--items", options->items, "With --check: run only these items, comma-separated (1 to 9)")
      ->delimiter(',')
      ->check(CLI::IsMember({"1", "2", "3", "4", "5", "6", "7", "8", "9"}));
  bench->add_option("--json", options->json_file, "Write the full result to this file, in tzmark's own schema");
  bench
      ->add_option(
          "--format", options->format,
          "Standard output: text (tables), or google (JSON of Google Benchmark, one entry per round with mean, "
          "median and stddev)")
      ->check(CLI::IsMember({"text", "google"}))
      ->capture_default_str();
  bench->add_flag("--progress", options->progress, "Show progress on stderr even without a terminal");
  bench
      ->add_option("--profile", options->profile_file,
                   "File with settings of tzmark tune: I/O path, block, depth, threads and memory; options given here "
                   "win")
      ->excludes(check);
  bench->callback([options, rounds, bench, &command, &status] {
    options->names_workload = bench->count("--workload") != 0;
    options->limits_laps = rounds->count() > 0;
    if (!options->profile_file.empty()) {
      const auto is_given = [&](std::string_view name) { return bench->count(std::string(name)) != 0; };
      set_from_profile(load_profile(options->profile_file), is_given, *options);
    }
    run(*options, command, status);
  });
}

}  // namespace tzmark::bench
