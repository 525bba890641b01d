// Adds the options that subcommands of tzmark bench share; see bench_options.h.
#include "cli/bench_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

#include "program/local_name.h"
#include "workloads/workload.h"

namespace tzmark::bench {
namespace {

template <typename T>
CLI::Option* add_list(CLI::App& app, const char* name, std::vector<T>& values, const std::string& text) {
  return app.add_option(name, values, text)->delimiter(',')->allow_extra_args(false);
}

void add_choice(CLI::App& app, const char* name, std::string& value, const char* text, std::vector<std::string> names) {
  app.add_option(name, value, text)->check(CLI::IsMember(std::move(names)))->capture_default_str();
}

}  // namespace

CLI::Option* add_directory(CLI::App& app, std::string& directory) {
  return app
      .add_option("--dir", directory,
                  "Directory on the storage to measure; a temporary subdirectory is created and removed")
      ->check([](const std::string& name) {
        const std::string why = why_not_local(name);
        return why.empty() ? why : why + "; tzmark bench remote measures a file on a server";
      });
}

void add_workload(CLI::App& app, std::string& workload, const std::string& what) {
  std::vector<std::string_view> names;
  for (const WorkloadInfo& info : workloads()) names.push_back(info.name);
  app.add_option("--workload", workload, fmt::format("{}: {}", what, fmt::join(names, ", ")))->capture_default_str();
}

void add_scale(CLI::App& app, std::uint64_t& scale_bytes, const std::string& bytes) {
  // Sums of sizes do not overflow below it, and no machine has that much memory.
  constexpr std::uint64_t kScaleBytesMax = std::uint64_t{1} << 50;
  app.add_option("--scale", scale_bytes, fmt::format("Scale the workload down to this many bytes (default {})", bytes))
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{1}, kScaleBytesMax));
}

void add_io(CLI::App& app, std::vector<std::string>& io, const std::string& paths) {
  add_list(app, "--io", io, fmt::format("I/O paths, comma-separated (default: {})", paths));
}

void add_gpu_set(CLI::App& app, std::uint64_t& bytes) {
  app.add_option("--gpu-set", bytes, "Working set of the GPU ceilings (default 1GiB)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 40));
}

void add_seed(CLI::App& app, std::uint64_t& seed) {
  app.add_option("--seed", seed, "Seed of the order in which subjects take turns")->capture_default_str();
}

Verification verification_of(std::string_view name) {
  if (name == "none") return Verification::kNone;
  return name == "crc32" ? Verification::kCrc32 : Verification::kAll;
}

CLI::AsNumberWithUnit to_seconds() {
  return CLI::AsNumberWithUnit(std::map<std::string, std::uint64_t>{{"s", 1}, {"m", 60}, {"h", 3600}});
}

void add_budget(CLI::App& app, std::uint64_t& budget_s) {
  app.add_option("--budget", budget_s, "Time for all lines together, such as 90s or 10m; each runs until it is decided")
      ->transform(to_seconds())
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000}))
      ->default_str("10m");
}

void add_format(CLI::App& app, std::string& format) {
  add_choice(app, "--format", format,
             "Standard output: text (tables), or google (JSON of Google Benchmark, one entry per round with mean, "
             "median and stddev)",
             {"text", "google"});
}

void add_result(CLI::App& app, ResultOptions& options) {
  app.add_option("--json", options.json_file, "Write the full result to this file, in tzmark's own schema");
  app.add_flag("--progress", options.progress, "Show progress on stderr even without a terminal");
}

void add_profile(CLI::App& app, BenchOptions& options) {
  app.add_option("--profile", options.profile_file,
                 "File with settings of tzmark tune: I/O path, block, depth, threads and memory; options given here "
                 "win");
}

void add_subjects(CLI::App& app, BenchOptions& options, const SubjectDefaults& defaults) {
  add_workload(app, options.workload, "Model whose tensors are moved");
  add_scale(app, options.scale_bytes, defaults.scale);
  add_io(app, options.io, defaults.io);
  add_list(app, "--op", options.operations, "Operations: read, write")
      ->check(CLI::IsMember({"read", "write"}))
      ->capture_default_str();
  app.add_option("--layout", options.layout, "Layout of the files")->capture_default_str();
  add_list(app, "--block", options.block_bytes,
           "Bytes per transfer, comma-separated (default: what suits the I/O path)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 30));
  add_list(app, "--depth", options.queue_depths,
           "Queue depth: transfers in flight over all threads; 0 = the default of the path")
      ->check(CLI::Range(0U, 4096U));
  add_list(app, "--threads", options.threads, "Compute threads; 0 = one per core")->check(CLI::Range(0U, 1024U));
  add_list(app, "--verify", options.verifications,
           fmt::format("Hashes to store and to verify: none, crc32, both (default {})", defaults.verify))
      ->check(CLI::IsMember({"none", "crc32", "both"}));
  app.add_flag("--encrypt", options.encrypt, "Encrypt the files; excludes --verify crc32");
  add_choice(app, "--cache", options.cache,
             "State of the page cache before a read: auto (cold for direct paths, else warm), warm, cold",
             {"auto", "warm", "cold"});
  add_choice(app, "--memory", options.memory,
             "Destination of reads: auto (both kinds of new memory), thp (new memory, huge pages), small-pages, "
             "sink, or device (GPU memory, also the source of writes)",
             {"auto", "thp", "small-pages", "sink", "device"});
  add_choice(app, "--compute", options.compute,
             "Where reads into GPU memory are verified and decrypted: host, device, or auto",
             {"auto", "host", "device"});
  app.add_flag("--no-raw", options.no_raw, "Leave out the raw transfers, which are the ceiling of each path");
}

void add_other_subjects(CLI::App& app, BenchOptions& options) {
  add_gpu_set(app, options.gpu_set_bytes);
  app.add_flag("--no-ceilings", options.no_ceilings,
               "Leave out the ceilings of single steps: samples follow each other without computations in between");
  app.add_flag("--fio", options.fio, "Also measure fio, with the parameters of the direct paths");
  app.add_flag("--peers", options.peers,
               "Also measure tensorizer, safetensors (scripts/peers installs them) and the Python module");
}

}  // namespace tzmark::bench
