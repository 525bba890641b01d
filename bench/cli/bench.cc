// tzmark bench: all combinations of paths and parameters over one workload, or the checks.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <system_error>

#include "cli/bench_commands.h"
#include "cli/check.h"
#include "cli/google_document.h"
#include "cli/result_document.h"
#include "cli/run_program.h"
#include "tzmark/device_compute.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

struct BenchOptions {
  bool list_io = false, check = false, encrypt = false, fio = false, peers = false, no_raw = false, progress = false;
  std::string directory, json_file;
  std::string workload = "gpt2", layout = "v4", memory = "auto", cache = "auto", compute = "auto", format = "text";
  std::uint64_t scale_bytes = 0, gpu_set_bytes = kGpuWorkingSetBytes;
  std::vector<std::string> io, operations = {"read", "write"}, verifications = {"none"}, items;
  std::vector<std::uint64_t> block_bytes = {2 << 20};
  std::vector<unsigned> queue_depths = {0}, threads = {0};
  unsigned rounds = 7;
  std::uint64_t seed = 1, budget_s = 600;
  bool limits_laps = false;
};

void list_io() {
  for (const IoPath& path : io_paths()) {
    const std::string reason = path.why_unavailable();
    say("{:17} {}\n{:17} {}\n", path.name, path.summary, "", reason.empty() ? "available" : "not available: " + reason);
  }
}

// Returns the paths that were named; by default all available paths except variants.
std::vector<std::string> chosen_paths(const BenchOptions& options) {
  std::vector<std::string> names;
  for (const IoPath& path : io_paths()) {
    const bool named = std::ranges::find(options.io, path.name) != options.io.end();
    if (!named && (!options.io.empty() || !path.variant_of.empty())) continue;
    const std::string reason = path.why_unavailable();
    if (reason.empty()) {
      names.emplace_back(path.name);
    } else if (named) {
      throw Error(ErrorCode::kUnavailable, fmt::format("I/O path {}: {}", path.name, reason));
    }
  }
  for (const std::string& name : options.io) {
    if (std::ranges::find(names, name) == names.end()) {
      throw Error(ErrorCode::kUsage, fmt::format("there is no I/O path '{}'; --list-io lists them", name));
    }
  }
  return names;
}

Cache chosen_cache(const BenchOptions& options, std::string_view io) {
  if (is_direct(io)) return Cache::kDirect;
  return options.cache == "cold" ? Cache::kCold : Cache::kWarm;
}

std::vector<Target> targets_of(const BenchOptions& options) {
  if (options.memory == "sink") return {Target::kSink};
  if (options.memory == "device") return {Target::kDevice};
  if (options.memory == "thp") return {Target::kHugePages};
  if (options.memory == "small-pages") return {Target::kSmallPages};
  return {Target::kHugePages, Target::kSmallPages};
}

DeviceCompute compute_of(const BenchOptions& options) {
  if (options.compute == "auto") return DeviceCompute::kAuto;
  return options.compute == "host" ? DeviceCompute::kHost : DeviceCompute::kDevice;
}

Verification verification_of(std::string_view name) {
  if (name == "none") return Verification::kNone;
  return name == "crc32" ? Verification::kCrc32 : Verification::kAll;
}

// Makes the subjects: one for each combination of the options.
class Matrix {
 public:
  Matrix(BenchOptions options, Workplace& place, SharedContent content)
      : options_(std::move(options)), place_(place), content_(std::move(content)) {}

  std::vector<Measured> subjects() {
    if (const std::string why = DeviceMemory::why_unavailable(); to_device() && !why.empty()) {
      throw Error(ErrorCode::kUnavailable, why);
    }
    if (options_.encrypt && std::ranges::find(options_.verifications, "crc32") != options_.verifications.end()) {
      throw Error(ErrorCode::kUsage, "--encrypt excludes --verify crc32: encrypted files store no CRC32");
    }
    for (unsigned& threads : options_.threads) threads = thread_count(threads);
    drop_duplicates(options_.threads);
    drop_duplicates(options_.block_bytes);
    drop_duplicates(options_.queue_depths);
    drop_duplicates(options_.verifications);
    for (const std::string& io : chosen_paths(options_)) {
      for (const std::uint64_t block : options_.block_bytes) {
        for (const unsigned depth : options_.queue_depths) {
          for (const unsigned threads : options_.threads) {
            add_path({.io = io, .block_bytes = block, .queue_depth = depth, .threads = threads});
          }
        }
      }
    }
    for (const unsigned threads : options_.threads) {
      const auto ladder = std::make_shared<Ladder>(thread_count(threads));
      for (const Rung rung : {Rung::kMemcpy, Rung::kCrc32, Rung::kSha256, Rung::kSecretbox}) add(ceiling(ladder, rung));
    }
    if (to_device()) add_gpu_ceilings();
    if (options_.peers) add_peers();
    return std::move(subjects_);
  }

 private:
  void add(std::unique_ptr<Subject> subject) { subjects_.push_back({std::move(subject), {}, {}}); }

  bool to_device() const { return options_.memory == "device"; }

  void add_gpu_ceilings() {
    std::vector<GpuRung> rungs = {GpuRung::kCopy, GpuRung::kFill};
    if (why_no_device_compute().empty()) rungs.insert(rungs.end(), {GpuRung::kCrc32, GpuRung::kSecretbox});
    for (const GpuRung rung : rungs) add(ceiling(rung, options_.gpu_set_bytes));
  }

  template <typename T>
  static void drop_duplicates(std::vector<T>& values) {
    std::ranges::sort(values);
    const auto rest = std::ranges::unique(values);
    values.erase(rest.begin(), rest.end());
  }

  bool wants(std::string_view operation) const {
    return std::ranges::find(options_.operations, operation) != options_.operations.end();
  }

  FileFormat stored(std::string_view verification) const {
    return {.layout = *layout_from_name(options_.layout),
            .crc32 = !options_.encrypt && verification != "none",
            .sha256 = verification == "both",
            .encrypted = options_.encrypt};
  }

  void add_path(const IoSettings& moving) {
    if (moving.io == "gpudirect" && !options_.no_raw) {
      if (wants("read")) add(device_read(place_, content_, moving));
      if (wants("write")) add(device_write(place_, content_, moving));
    }
    // The path gpudirect moves GPU memory only.
    if (moving.io == "gpudirect" && !to_device()) return;
    const Cache cache = chosen_cache(options_, moving.io);
    const bool has_fio = options_.fio && (moving.io == "direct" || moving.io == "uring-direct");
    if (wants("read")) {
      // All reads use one file with both hashes: unverified hashes cost a read almost nothing.
      const FileFormat all = stored("both");
      for (const Target target : targets_of(options_)) {
        for (const std::string& verification : options_.verifications) {
          add(codec_read(place_, content_, all, moving,
                         {.verification = verification_of(verification),
                          .target = target,
                          .cache = cache,
                          .compute = compute_of(options_)}));
        }
        // A read to the GPU through host memory begins with a read into reused host memory.
        if (!options_.no_raw && moving.io != "gpudirect") {
          add(raw_read(place_, content_, moving, to_device() ? Target::kSink : target, cache));
        }
      }
      if (has_fio) add_fio(FileOperation::kRead, moving);
    }
    if (wants("write")) {
      for (const std::string& verification : options_.verifications) {
        add(codec_write(place_, content_, stored(verification), moving, to_device()));
      }
      if (!options_.no_raw && moving.io != "gpudirect") add(raw_write(place_, content_, moving));
      if (has_fio) add_fio(FileOperation::kWrite, moving);
    }
  }

  // fio, and raw transfers that do the same.
  void add_fio(FileOperation operation, const IoSettings& moving) {
    for (const Pages pages : {Pages::kHuge, Pages::kSmall}) {
      add(fio_run(place_, content_, operation, moving, pages));
      add(raw_as_fio(place_, content_, operation, moving, pages));
    }
  }

  void add_peers() {
    for (const Pages pages : {Pages::kHuge, Pages::kSmall}) add_peers(pages);
  }

  void add_peers(Pages pages) {
    for (const std::string_view name : {"tensorizer", "safetensors"}) {
      const bool is_tensorizer = name == "tensorizer";
      if (!is_tensorizer && options_.encrypt) continue;
      std::string why;
      const auto found = find_peer(name, why);
      if (!found) throw Error(ErrorCode::kUnavailable, why);
      const auto peer = std::make_shared<RunningPeer>(*found, pages);
      const FileFormat kept = is_tensorizer ? stored("both") : FileFormat{.encrypted = false};
      if (wants("read")) {
        for (const std::string& verification : options_.verifications) {
          const bool verify = verification != "none";
          if (verify && (!is_tensorizer || verification == "crc32")) continue;
          add(peer_run(place_, content_, peer, kept,
                       {.operation = FileOperation::kRead, .verify = verify, .into_device = to_device()}));
        }
      }
      // The peers cannot write from GPU memory without a copy to the host.
      if (wants("write") && !to_device())
        add(peer_run(place_, content_, peer, kept, {.operation = FileOperation::kWrite}));
    }
  }

  BenchOptions options_;
  Workplace& place_;
  const SharedContent content_;
  std::vector<Measured> subjects_;
};

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

// The documents that a run fills. google: only if that format was chosen.
struct Output {
  Document document;
  std::optional<GoogleDocument> google;

  void add(const std::vector<Measured>& measured) {
    document.add(measured);
    if (google) google->add(measured);
  }
};

RoundOptions round_options(const BenchOptions& options, const RoundProgress& progress) {
  return {.rounds = options.rounds, .seed = options.seed, .progress = progress.callback()};
}

void run_matrix(const BenchOptions& options, Output& output) {
  if (!layout_from_name(options.layout)) {
    throw Error(ErrorCode::kUsage, fmt::format("there is no layout '{}'", options.layout));
  }
  Workplace place(options.directory);
  constexpr std::uint64_t kScaleBytes = 256 << 20;
  const auto content = std::make_shared<TensorContent>(
      make_workload(options.workload, options.scale_bytes != 0 ? options.scale_bytes : kScaleBytes));
  std::vector<Measured> measured = Matrix(options, place, content).subjects();
  {
    const RoundProgress progress(options.progress);
    run_rounds(measured, round_options(options, progress));
  }
  // A path chosen by name must run on this file system; the default set leaves out what does not.
  for (const Measured& m : measured) {
    const bool ours = m.description().subject == "codec" || m.description().subject == "raw";
    if (ours && !options.io.empty() && !m.why.empty()) throw Error(ErrorCode::kUnavailable, m.why);
  }
  output.document.add_workload(content->workload());
  output.add(measured);
  if (!output.google) print_results(measured);
}

void print_conditions(const ContestConditions& conditions) {
  if (conditions.disturbed_laps == 0) return;
  say("{} of {} laps were disturbed by other processes or the hypervisor; {}\n", conditions.disturbed_laps,
      conditions.laps,
      conditions.was_busy ? "the machine was busy, so that they had to count" : "they were repeated and do not count");
}

void run_all_checks(const BenchOptions& options, Output& output, int& status) {
  std::vector<RatioCheck> all;
  ContestConditions conditions;
  {
    const RoundProgress progress(options.progress);
    CheckOptions checks{.directory = options.directory, .items = options.items};
    if (options.scale_bytes != 0) checks.scale_bytes = options.scale_bytes;
    checks.gpu_set_bytes = options.gpu_set_bytes;
    checks.contests.budget = std::chrono::seconds(options.budget_s);
    checks.contests.seed = options.seed;
    checks.contests.progress = progress.callback();
    if (options.limits_laps) checks.contests.laps_max = options.rounds;
    conditions = run_checks(checks, [&](const auto& workloads, const auto& measured, const auto& concluded) {
      for (const Workload& workload : workloads) output.document.add_workload(workload);
      output.add(measured);
      output.document.add(concluded);
      all.insert(all.end(), concluded.begin(), concluded.end());
    });
  }
  output.document.add(conditions);
  std::ranges::stable_sort(all, {}, &RatioCheck::item);
  if (!output.google) {
    print_conditions(conditions);
    say("{}", check_table(all));
  }
  const auto failed = [](const RatioCheck& check) { return check.verdict == BoundVerdict::kFail; };
  if (std::ranges::any_of(all, failed)) status = 1;
}

void run(const BenchOptions& options, const std::vector<std::string>& command, int& status) {
  if (options.list_io) return list_io();
  if (options.directory.empty()) throw Error(ErrorCode::kUsage, "--dir names the directory whose storage is measured");
  std::optional<AtomicFile> file;
  if (!options.json_file.empty()) file.emplace(options.json_file);
  // A failure shows when the directory is first used.
  std::error_code ignored;
  std::filesystem::create_directories(options.directory, ignored);
  Output output{Document(command, options.directory), {}};
  if (options.format == "google") output.google.emplace(command);
  options.check ? run_all_checks(options, output, status) : run_matrix(options, output);
  if (!output.google) {
    for (const std::string& warning : output.document.warnings()) say("note: {}\n", warning);
  }
  if (file) commit_json(*file, output.document.finish(options.rounds, options.seed));
  if (output.google) print(json_text(output.google->finish()));
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
  bench->add_option("--workload", options->workload, "Model whose tensors are moved: " + workload_names())
      ->capture_default_str();
  bench
      ->add_option(
          "--scale", options->scale_bytes,
          "Scale the workload down to this many bytes (default 256MiB; with --check 128MiB, half of which is written)")
      ->transform(CLI::AsSizeValue(false));
  bench->add_option("--io", options->io, "I/O paths, comma-separated (default: all available, without variants)")
      ->delimiter(',');
  bench->add_option("--op", options->operations, "Operations: read, write")
      ->delimiter(',')
      ->check(CLI::IsMember({"read", "write"}))
      ->capture_default_str();
  bench->add_option("--layout", options->layout, "Layout of the files")->capture_default_str();
  bench->add_option("--block", options->block_bytes, "Bytes per transfer, comma-separated (default 2MiB)")
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
  bench->add_option("--verify", options->verifications, "Hashes to store and to verify: none, crc32, both")
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
  bench->add_flag("--fio", options->fio, "Also measure fio, with the parameters of the direct paths");
  bench->add_flag("--peers", options->peers, "Also measure tensorizer and safetensors; scripts/peers installs them");
  CLI::Option* rounds =
      bench
          ->add_option("--rounds", options->rounds,
                       "Samples per subject; an interval needs 6 or more. With --check: at most so many laps per check")
          ->check(CLI::PositiveNumber)
          ->capture_default_str();
  bench->add_option("--seed", options->seed, "Seed of the order within rounds")->capture_default_str();
  bench->add_flag("--check", options->check, "Run the performance checks; exit 1 if one fails");
  bench
      ->add_option("--budget", options->budget_s,
                   "With --check: time for all checks together, such as 90s or 10m; each runs until it is decided")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, std::uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}}))
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->default_str("10m");
  bench->add_option("--items", options->items, "With --check: run only these items, comma-separated (1 to 7)")
      ->delimiter(',')
      ->check(CLI::IsMember({"1", "2", "3", "4", "5", "6", "7"}));
  bench->add_option("--json", options->json_file, "Write the full result to this file, in tzmark's own schema");
  bench
      ->add_option(
          "--format", options->format,
          "Standard output: text (tables), or google (JSON of Google Benchmark, one entry per round with mean, "
          "median and stddev)")
      ->check(CLI::IsMember({"text", "google"}))
      ->capture_default_str();
  bench->add_flag("--progress", options->progress, "Show progress on stderr even without a terminal");
  bench->callback([options, rounds, &command, &status] {
    options->limits_laps = rounds->count() > 0;
    run(*options, command, status);
  });
}

}  // namespace tzmark::bench
