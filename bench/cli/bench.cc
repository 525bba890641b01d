// tzmark bench: the matrix of paths and parameters over one workload, or the checks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>

#include "bytes/utf8.h"
#include "cli/check.h"
#include "cli/commands.h"
#include "cli/document.h"
#include "cli/say.h"
#include "gpu/compute.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

struct BenchOptions {
  bool list_io = false, check = false, encrypt = false, fio = false, peers = false, no_raw = false, progress = false;
  std::string directory, json_file;
  std::string workload = "gpt2", layout = "v4", memory = "thp", cache = "auto", compute = "auto";
  std::uint64_t scale_bytes = 0, gpu_set_bytes = kGpuWorkingSetBytes;
  std::vector<std::string> io, operations = {"read", "write"}, verifications = {"none"}, items;
  std::vector<std::uint64_t> block_bytes = {2 << 20};
  std::vector<unsigned> queue_depths = {0}, threads = {0};
  unsigned rounds = 7;
  std::uint64_t seed = 1;
};

// What is done next, on one line of the terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool forced) : is_on_(forced || ::isatty(STDERR_FILENO) != 0) {}
  ~ProgressLine() {
    if (is_on_) print_to_stderr("\r\033[K");
  }
  std::function<void(const std::string&)> callback() const {
    if (!is_on_) return {};
    return [](const std::string& what) { print_to_stderr(fmt::format("\r\033[K{:.110}", printable(what))); };
  }

 private:
  const bool is_on_;
};

int list_io() {
  int status = 0;
  for (const IoPath& path : io_paths()) {
    const std::string reason = path.why_unavailable();
    say("{:17} {}\n{:17} {}\n", path.name, path.summary, "", reason.empty() ? "available" : "not available: " + reason);
  }
  return status;
}

// The paths that were named, or those of the registry that this machine has and that are no variants.
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
      throw Error(ErrorCode::kUsage, fmt::format("there is no I/O path '{}'; --list-io tells which there are", name));
    }
  }
  return names;
}

Cache chosen_cache(const BenchOptions& options, std::string_view io) {
  if (is_direct(io)) return Cache::kDirect;
  return options.cache == "cold" ? Cache::kCold : Cache::kWarm;
}

Target target_of(const BenchOptions& options) {
  if (options.memory == "sink") return Target::kSink;
  if (options.memory == "device") return Target::kDevice;
  return options.memory == "thp" ? Target::kHugePages : Target::kSmallPages;
}

DeviceCompute compute_of(const BenchOptions& options) {
  if (options.compute == "auto") return DeviceCompute::kAuto;
  return options.compute == "host" ? DeviceCompute::kHost : DeviceCompute::kDevice;
}

Verification verification_of(std::string_view name) {
  if (name == "none") return Verification::kNone;
  return name == "crc32" ? Verification::kCrc32 : Verification::kAll;
}

// Builds the subjects of the matrix.
class Matrix {
 public:
  Matrix(BenchOptions options, Workplace& place, SharedContent content)
      : options_(std::move(options)), place_(place), content_(std::move(content)) {}

  std::vector<Measured> subjects() {
    if (const std::string why = DeviceMemory::why_unavailable(); to_device() && !why.empty()) {
      throw Error(ErrorCode::kUnavailable, why);
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
      for (const Rung rung : {Rung::kMemcpy, Rung::kCrc32, Rung::kSha256, Rung::kSecretbox}) {
        add(ceiling(rung, thread_count(threads)));
      }
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

  // What an encrypted file has no CRC32 for is the same once more.
  std::vector<std::string> verifications() const {
    std::vector<std::string> names = options_.verifications;
    if (options_.encrypt && std::ranges::find(names, "crc32") != names.end()) {
      throw Error(ErrorCode::kUsage, "encrypted files have no CRC32; --verify none or both");
    }
    return names;
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

  Stored stored(std::string_view verification) const {
    return {.layout = *layout_from_name(options_.layout),
            .crc32 = !options_.encrypt && verification != "none",
            .sha256 = verification == "both",
            .encrypted = options_.encrypt};
  }

  void add_path(const Moving& moving) {
    if (moving.io == "gpudirect" && !options_.no_raw) {
      if (wants("read")) add(device_read(place_, content_, moving));
      if (wants("write")) add(device_write(place_, content_, moving));
    }
    // Only GPU memory is what that path is for.
    if (moving.io == "gpudirect" && !to_device()) return;
    const Cache cache = chosen_cache(options_, moving.io);
    const bool has_fio = options_.fio && (moving.io == "direct" || moving.io == "uring-direct");
    if (wants("read")) {
      // Hashes cost a file next to nothing, so that all reads are of one file.
      const Stored all = stored("both");
      for (const std::string& verification : verifications()) {
        add(codec_read(place_, content_, all, moving,
                       {.verification = verification_of(verification),
                        .target = target_of(options_),
                        .cache = cache,
                        .compute = compute_of(options_)}));
      }
      // Of a way to the GPU by the host the first half is what can be read without the second.
      if (!options_.no_raw && moving.io != "gpudirect") {
        add(raw_read(place_, content_, moving, to_device() ? Target::kSink : target_of(options_), cache));
      }
      if (has_fio) add(fio_run(place_, content_, Operation::kRead, moving));
    }
    if (wants("write")) {
      for (const std::string& verification : verifications()) {
        add(codec_write(place_, content_, stored(verification), moving, to_device()));
      }
      if (!options_.no_raw && moving.io != "gpudirect") add(raw_write(place_, content_, moving));
      if (has_fio) add(fio_run(place_, content_, Operation::kWrite, moving));
    }
  }

  void add_peers() {
    for (const std::string_view name : {"tensorizer", "safetensors"}) {
      const bool is_tensorizer = name == "tensorizer";
      if (!is_tensorizer && options_.encrypt) continue;
      std::string why;
      const auto found = find_peer(name, why);
      if (!found) throw Error(ErrorCode::kUnavailable, why);
      const auto peer = std::make_shared<RunningPeer>(*found);
      const Stored kept = is_tensorizer ? stored("both") : Stored{.encrypted = false};
      if (wants("read")) {
        for (const std::string& verification : verifications()) {
          const bool verify = verification != "none";
          if (verify && (!is_tensorizer || verification == "crc32")) continue;
          add(peer_run(place_, content_, peer, kept,
                       {.operation = Operation::kRead, .verify = verify, .into_device = to_device()}));
        }
      }
      // What is in GPU memory they copy to the host by themselves, or not at all.
      if (wants("write") && !to_device()) add(peer_run(place_, content_, peer, kept, {.operation = Operation::kWrite}));
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

void print_results(const nlohmann::json& document) {
  say("{:76} {:>12} {:>15} {:>8}  {}\n", "what", "rate", "95 %", "to disk", "bound by");
  const auto interval = [](const nlohmann::json& rate) {
    Interval result;
    result.median = rate["median"];
    if (!rate["low"].is_null()) {
      result.low = rate["low"];
      result.high = rate["high"];
    }
    return result;
  };
  const auto print = [&](const std::string& id, const nlohmann::json& rate, const std::string& durable,
                         const std::string& bound) {
    say("{:76} {} {:>8}  {}\n", id, rate_text(interval(rate)), durable, bound);
  };
  for (const nlohmann::json& result : document["results"]) {
    const nlohmann::json& durable = result["durable_rate"];
    const nlohmann::json& bound = result["bound_by"];
    if (result["samples"].empty()) {
      say("{:76} {}\n", result["id"].get<std::string>(), result["notes"].back().get<std::string>());
      continue;
    }
    print(result["id"], result["rate"],
          durable.is_null() ? "" : fmt::format("{:.2f}", durable["median"].get<double>() / 1e9),
          bound.is_null()
              ? ""
              : fmt::format("{} ({:.0f} %)", bound["rung"].get<std::string>(), 100 * bound["share"].get<double>()));
    for (const nlohmann::json& note : result["notes"]) {
      if (note.get_ref<const std::string&>().find("made in place") != std::string::npos) {
        fmt::print("  {}\n", note.get_ref<const std::string&>());
      }
    }
  }
  for (const nlohmann::json& rung : document["ceilings"]) {
    const auto name = rung["rung"].get<std::string>();
    if (name.starts_with("path-") || name.starts_with("device-")) continue;
    print(fmt::format("ceiling {} t{}", name, rung["threads"].get<unsigned>()), rung["rate"], "", "");
  }
}

RoundOptions round_options(const BenchOptions& options, const ProgressLine& line) {
  return {.rounds = options.rounds, .seed = options.seed, .progress = line.callback()};
}

nlohmann::json run_matrix(const BenchOptions& options, const std::vector<std::string>& command) {
  if (!layout_from_name(options.layout)) {
    throw Error(ErrorCode::kUsage, fmt::format("there is no layout '{}'", options.layout));
  }
  // If that fails, whoever uses the directory next says why.
  std::error_code ignored;
  std::filesystem::create_directories(options.directory, ignored);
  Workplace place(options.directory);
  Document document(command, options.directory);
  constexpr std::uint64_t kScaleBytes = 256 << 20;
  const auto content = std::make_shared<Content>(
      make_workload(options.workload, options.scale_bytes != 0 ? options.scale_bytes : kScaleBytes));
  std::vector<Measured> measured = Matrix(options, place, content).subjects();
  {
    const ProgressLine line(options.progress);
    run_rounds(measured, round_options(options, line));
  }
  // A path that was asked for and that this file system lacks is an error; one that was only there to be tried is not.
  for (const Measured& m : measured) {
    const bool ours = m.subject->description().subject == "codec" || m.subject->description().subject == "raw";
    if (ours && !options.io.empty() && !m.why.empty()) throw Error(ErrorCode::kUnavailable, m.why);
  }
  document.add_workload(content->workload());
  document.add(measured);
  nlohmann::json result = document.finish(options.rounds, options.seed);
  print_results(result);
  return result;
}

nlohmann::json run_all_checks(const BenchOptions& options, const std::vector<std::string>& command, int& status) {
  // If that fails, whoever uses the directory next says why.
  std::error_code ignored;
  std::filesystem::create_directories(options.directory, ignored);
  Document document(command, options.directory);
  std::vector<Check> all;
  {
    const ProgressLine line(options.progress);
    CheckOptions checks{.directory = options.directory, .items = options.items, .rounds = round_options(options, line)};
    if (options.scale_bytes != 0) checks.scale_bytes = options.scale_bytes;
    checks.gpu_set_bytes = options.gpu_set_bytes;
    run_checks(checks, [&](const auto& workloads, const auto& measured, const auto& concluded) {
      for (const Workload& workload : workloads) document.add_workload(workload);
      document.add(measured);
      document.add(concluded);
      all.insert(all.end(), concluded.begin(), concluded.end());
    });
  }
  std::ranges::stable_sort(all, {}, &Check::item);
  say("{}", check_table(all));
  if (std::ranges::any_of(all, [](const Check& check) { return check.verdict == Verdict::kFail; })) status = 1;
  return document.finish(options.rounds, options.seed);
}

void run(const BenchOptions& options, const std::vector<std::string>& command, int& status) {
  if (options.list_io) {
    status = list_io();
    return;
  }
  if (options.directory.empty()) throw Error(ErrorCode::kUsage, "--dir names the directory whose storage is measured");
  // Opened first: nobody wants to hear after an hour that it cannot be written.
  std::optional<AtomicFile> file;
  if (!options.json_file.empty()) file.emplace(options.json_file);
  const nlohmann::json document =
      options.check ? run_all_checks(options, command, status) : run_matrix(options, command);
  if (!file) return;
  const std::string text = document.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  file->file().write_at(0, std::as_bytes(std::span(text)));
  file->commit();
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
  CLI::App* bench = app.add_subcommand("bench", "Measure I/O paths, the codec on top of them, and others beside it");
  bench->add_flag("--list-io", options->list_io, "Say which I/O paths there are, and why one is not available");
  bench->add_option("--dir", options->directory,
                    "Directory on the storage to measure; it gets a folder that goes again");
  bench->add_option("--workload", options->workload, "Whose tensors: " + workload_names())->capture_default_str();
  bench
      ->add_option("--scale", options->scale_bytes,
                   "Shrink the workload to this many bytes (default 256MiB, for --check 512MiB)")
      ->transform(CLI::AsSizeValue(false));
  bench->add_option("--io", options->io, "I/O paths, comma-separated (default: all that are here, without variants)")
      ->delimiter(',');
  bench->add_option("--op", options->operations, "read, write")
      ->delimiter(',')
      ->check(CLI::IsMember({"read", "write"}))
      ->capture_default_str();
  bench->add_option("--layout", options->layout, "Layout of the files")->capture_default_str();
  bench->add_option("--block", options->block_bytes, "Bytes of a transfer, comma-separated (default 2MiB)")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 30));
  bench->add_option("--depth", options->queue_depths, "Transfers in flight over all threads; 0 is what suits the path")
      ->delimiter(',')
      ->check(CLI::Range(0U, 4096U));
  bench->add_option("--threads", options->threads, "Threads that compute at a time; 0 is one a core")
      ->delimiter(',')
      ->check(CLI::Range(0U, 1024U));
  bench->add_option("--verify", options->verifications, "Hashes to store and to verify: none, crc32, both")
      ->delimiter(',')
      ->check(CLI::IsMember({"none", "crc32", "both"}));
  bench->add_flag("--encrypt", options->encrypt, "Encrypted files");
  bench->add_option("--cache", options->cache, "Before a read: auto (warm; for direct paths cold), warm, cold")
      ->check(CLI::IsMember({"auto", "warm", "cold"}))
      ->capture_default_str();
  bench
      ->add_option("--memory", options->memory,
                   "Where reads end: thp (new memory, huge pages), small-pages, sink, or device (GPU memory, where "
                   "writes begin then too)")
      ->check(CLI::IsMember({"thp", "small-pages", "sink", "device"}))
      ->capture_default_str();
  bench
      ->add_option("--compute", options->compute,
                   "With --memory device: who checks and decrypts what is read, the host, the device, or auto")
      ->check(CLI::IsMember({"auto", "host", "device"}))
      ->capture_default_str();
  bench
      ->add_option("--gpu-set", options->gpu_set_bytes,
                   "With --memory device or --check: the GPU memory that the ceilings go over (default 1GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 40));
  bench->add_flag("--no-raw", options->no_raw, "Leave out the raw path, which is the ceiling of each path");
  bench->add_flag("--fio", options->fio, "Also fio, with the parameters of the direct paths");
  bench->add_flag("--peers", options->peers, "Also tensorizer and safetensors; scripts/peers installs them");
  bench->add_option("--rounds", options->rounds, "How often each is run; 6 and more give an interval")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  bench->add_option("--seed", options->seed, "Of the order within rounds")->capture_default_str();
  bench->add_flag("--check", options->check, "Hold the codec against its promises; exit 1 if one is broken");
  bench->add_option("--items", options->items, "With --check: only these, comma-separated (1 to 7)")
      ->delimiter(',')
      ->check(CLI::IsMember({"1", "2", "3", "4", "5", "6", "7"}));
  bench->add_option("--json", options->json_file, "Write the whole result to this file");
  bench->add_flag("--progress", options->progress, "Show progress on stderr even if that is no terminal");
  bench->callback([options, &command, &status] { run(*options, command, status); });
}

}  // namespace tzmark::bench
