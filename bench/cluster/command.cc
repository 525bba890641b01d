// The options of tzmark bench cluster, its rounds, and its table.
#include "cluster/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "cli/bench_commands.h"
#include "cli/bench_output.h"
#include "cli/data_size.h"
#include "cli/result_table.h"
#include "cli/rounds.h"
#include "cluster/cluster_subject.h"
#include "cluster/stragglers.h"
#include "harness/cgroup.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

constexpr unsigned kRoundsMin = 12;

struct ClusterRun {
  std::string directory, file_name;
  std::vector<std::string> patterns;
  std::string workload = "gpt2", cache = "auto", io = "auto";
  std::uint64_t scale_bytes = 0, block_bytes = 0;
  unsigned queue_depth = 0, threads = 0;
  unsigned rounds = 0;  // what tells slow ranks
  std::uint64_t seed = 1;
  ResultOptions result = {};

  IoSettings moving() const {
    return {.io = io, .block_bytes = block_bytes, .queue_depth = queue_depth, .threads = threads};
  }
  bool wants(Pattern pattern) const { return std::ranges::find(patterns, name_of(pattern)) != patterns.end(); }
  bool writes() const {
    return std::ranges::any_of(all_patterns(), [&](Pattern pattern) { return is_write(pattern) && wants(pattern); });
  }
};

// Whether it cannot do with a file that is there.
bool makes_files(Pattern pattern) { return pattern == Pattern::kSharded || is_write(pattern); }

Cache cache_of(const ClusterRun& given) {
  if (is_url(given.file_name)) return Cache::kServer;
  if (given.cache == "warm") return Cache::kWarm;
  return path_traits(given.io).bypasses_cache ? Cache::kDirect : Cache::kCold;
}

void check(const ClusterRun& given, unsigned ranks) {
  if (given.directory.empty() == given.file_name.empty()) {
    throw Error(ErrorCode::kUsage, "give --dir, for files that are made and removed, or --file, for one that is there");
  }
  for (const Pattern pattern : all_patterns()) {
    if (given.file_name.empty() || !given.wants(pattern) || !makes_files(pattern)) continue;
    throw Error(
        ErrorCode::kUsage,
        fmt::format("the pattern {} is about files that it makes: give --dir instead of --file", name_of(pattern)));
  }
  if (given.cache == "warm" && path_traits(given.io).bypasses_cache) {
    throw Error(ErrorCode::kUsage, fmt::format("the path {} bypasses the page cache: it reads nothing warm", given.io));
  }
  if (ranks == 1 && given.wants(Pattern::kSharded)) {
    throw Error(ErrorCode::kUsage, "a rank of the pattern sharded reads what another one has written: mpirun -n 4");
  }
  if (is_url(given.file_name) && given.cache != "auto") {
    throw Error(ErrorCode::kUsage, "the caches of a server are its own: --cache is for files");
  }
  if (ranks == 1 && std::ranges::any_of(all_patterns(), [&](Pattern p) { return is_exchange(p) && given.wants(p); })) {
    throw Error(ErrorCode::kUsage, "ranks that exchange what they read are two or more: mpirun -n 4");
  }
}

// What there is to read: a model and shards in a new directory, or a file that is there.
class MadeFiles {
 public:
  MadeFiles(const ClusterRun& given, ClusterLead& lead) {
    if (!given.file_name.empty()) {
      files_.model = is_url(given.file_name) ? given.file_name : std::filesystem::absolute(given.file_name).string();
      name_ = std::filesystem::path(display_name(given.file_name)).filename();
      return;
    }
    place_.emplace(std::filesystem::absolute(given.directory));
    lead.adopt(place_->directory());
    const auto content = std::make_shared<TensorContent>(make_workload(given.workload, given.scale_bytes));
    workload_ = content->workload();
    name_ = workload_->label();
    files_ = {.directory = place_->directory(),
              .model = place_->file(content, {}, Cache::kCold),
              .with_shards = given.wants(Pattern::kSharded),
              .with_writes = given.writes(),
              .workload = given.workload,
              .shard_bytes = std::max<std::uint64_t>(1 << 20, given.scale_bytes / lead.ranks().size()),
              .written_bytes = given.scale_bytes};
  }

  const ClusterFiles& files() const { return files_; }
  const std::string& name() const { return name_; }
  const std::optional<Workload>& workload() const { return workload_; }

 private:
  std::optional<Workplace> place_;
  std::optional<Workload> workload_;
  ClusterFiles files_;
  std::string name_;
};

std::string interval_text(const nlohmann::json& interval) {
  const std::string median = fmt::format("{:.3f}", interval.at("median").get<double>());
  if (interval.at("low").is_null()) return median;
  return fmt::format("{} ({:.3f} - {:.3f})", median, interval.at("low").get<double>(),
                     interval.at("high").get<double>());
}

void print_figures(const Measured& measured, std::size_t laps_min) {
  const nlohmann::json& figures = measured.description().cluster;
  if (figures.is_null()) return;
  const nlohmann::json& storage = figures.at("storage_bytes_per_byte");
  const auto time_text = [&](const char* what, const char* figure) {
    if (figures.at(figure).is_null()) return std::string();
    return fmt::format(", {} after {} s", what, interval_text(figures.at(figure)));
  };
  const bool writes = measured.description().operation == FileOperation::kWrite;
  say("{}: last rank after {} s{}{}{}; spread {:.2f}, Jain {:.3f}; {}\n", measured.description().detail,
      interval_text(figures.at("last_s")), time_text("first", "first_s"), time_text("open", "open_s"),
      time_text("training goes on", "stall_s"), figures.at("spread").at("median").get<double>(),
      figures.at("jain").at("median").get<double>(),
      storage.is_null() ? "no disk here to count the bytes of"
                        : fmt::format("disks {} {:.2f} times the bytes", writes ? "wrote" : "read",
                                      storage.at("median").get<double>()));
  const nlohmann::json& slow = figures.at("slow");
  if (slow.is_null()) {
    const Pattern pattern = *pattern_from_name(figures.at("pattern").get<std::string>());
    if (!is_exchange(pattern) && !is_write(pattern)) {
      say("  whether a rank is slow needs {} rounds and {} ranks\n", laps_min, kStragglerWorkersMin);
    }
    return;
  }
  for (const nlohmann::json& one : slow) {
    say("  rank {} on {} is slow: {:.2f} times the others, at least {:.2f}\n", one.at("rank").get<unsigned>(),
        one.at("host").get<std::string>(), one.at("ratio").get<double>(), one.at("low").get<double>());
  }
}

void measure(const ClusterRun& given, ClusterLead& lead, std::uint64_t bytes, BenchOutput& output) {
  const unsigned ranks = lead.ranks().size();
  const auto laps_min = static_cast<unsigned>(straggler_laps_min(ranks));
  ClusterRun sized = given;
  if (given.rounds == 0) sized.rounds = std::max(kRoundsMin, laps_min);
  sized.scale_bytes = bytes;
  const MadeFiles made(sized, lead);
  lead.set_up(made.files());
  std::vector<Measured> measured;
  for (const Pattern pattern : all_patterns()) {
    if (!given.wants(pattern)) continue;
    measured.push_back({std::make_unique<ClusterSubject>(lead, pattern, made.name(), cache_of(given)), {}, {}});
  }
  const RoundProgress progress(given.result.progress);
  const unsigned rounds =
      run_rounds(measured, {.rounds = sized.rounds, .seed = given.seed, .progress = progress.callback()});
  for (Measured& one : measured) dynamic_cast<ClusterSubject&>(*one.subject).add_figures(one.samples);
  if (made.workload()) output.document.add_workload(*made.workload());
  output.add(measured);
  if (!output.google) {
    print_results(measured);
    for (const Measured& one : measured) print_figures(one, laps_min);
  }
  output.finish(rounds, given.seed);
  for (const Measured& one : measured) {
    if (one.has_failed) throw Error(ErrorCode::kResource, fmt::format("{}: {}", one.description().id(), one.why));
  }
  if (std::ranges::all_of(measured, [](const Measured& one) { return one.samples.empty(); })) {
    throw Error(ErrorCode::kUnavailable, fmt::format("nothing could be measured: {}", measured.front().why));
  }
}

// Whose storage it is, for the result.
std::string measured_directory(const ClusterRun& given) {
  if (!given.directory.empty()) return given.directory;
  if (is_url(given.file_name)) return given.file_name;
  std::error_code error;
  const auto file = std::filesystem::canonical(given.file_name, error);
  if (error) throw Error(ErrorCode::kOpenFailed, fmt::format("{}: {}", given.file_name, error.message()));
  return file.parent_path();
}

void lead_all(const ClusterRun& given, const std::vector<std::string>& command, Ranks& ranks, RankWorker& own) {
  ClusterLead lead(ranks, own);
  try {
    if (!given.result.json_file.empty()) refuse_to_replace(given.result.json_file, {given.file_name});
    constexpr std::uint64_t kScaleBytes = 256 << 20;
    // Each rank of the host has the model, and rank 0 makes it.
    unsigned copies = ranks.host().ranks + 1;
    // What they write, and the snapshot of a checkpoint.
    if (given.writes()) copies += 2;
    const DataSize size =
        data_size(given.scale_bytes, kScaleBytes, {.needed = copies, .comfortable = copies + 2}, cgroup_limits());
    BenchOutput output(given.result, command, measured_directory(given), size);
    measure(given, lead, size.bytes, output);
  } catch (...) {
    lead.end();
    throw;
  }
  lead.end();
}

std::string summaries() {
  std::string text = "What the ranks read or write, comma-separated (default: all that the files allow):";
  for (const Pattern pattern : all_patterns()) text += fmt::format("\n{}: {}", name_of(pattern), summary_of(pattern));
  return text;
}

}  // namespace

void add_cluster(CLI::App& bench, const std::vector<std::string>& command, Ranks& ranks,
                 const std::function<void()>& begin) {
  auto given = std::make_shared<ClusterRun>();
  CLI::App& app = *bench.add_subcommand(
      "cluster",
      "Measure with the ranks of an MPI program how fast a model reaches, or leaves, all of them: mpirun -n N tzmark "
      "bench cluster");
  add_directory(app, given->directory);
  app.add_option("--file", given->file_name, "A .tensors file that is there, or a URL, instead of --dir");
  std::vector<std::string> names;
  for (const Pattern pattern : all_patterns()) names.emplace_back(name_of(pattern));
  app.add_option("--pattern", given->patterns, summaries())
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(names));
  add_workload(app, given->workload, "The tensors of the model");
  add_scale(app, given->scale_bytes, "256MiB");
  app.add_option("--io", given->io, "I/O path of the reads (default auto)");
  app.add_option("--block", given->block_bytes, "Bytes of a transfer (default: what suits the path)")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::Range(std::uint64_t{4096}, std::uint64_t{1} << 30));
  app.add_option("--depth", given->queue_depth, "Transfers in flight of a rank; 0 = the default of the path")
      ->check(CLI::Range(0U, 4096U));
  app.add_option("--threads", given->threads, "Threads of a rank; 0 = the cores of its host, divided among its ranks")
      ->check(CLI::Range(0U, 1024U));
  app.add_option("--cache", given->cache, "cold: no rank has the file in its page cache; warm: all have (default auto)")
      ->check(CLI::IsMember({"auto", "cold", "warm"}));
  app.add_option("--rounds", given->rounds, "Samples per pattern (default: 12, or as many as tell slow ranks)")
      ->check(CLI::PositiveNumber);
  add_seed(app, given->seed);
  add_format(app, given->result.format);
  add_result(app, given->result);
  app.callback([given, &command, &ranks, begin] {
    if (given->patterns.empty()) {
      for (const Pattern pattern : all_patterns()) {
        if (makes_files(pattern) && !given->file_name.empty()) continue;
        if ((is_exchange(pattern) || pattern == Pattern::kSharded) && ranks.size() == 1) continue;
        given->patterns.emplace_back(name_of(pattern));
      }
    }
    check(*given, ranks.size());
    begin();
    RankWorker own(ranks, given->moving(), cache_of(*given));
    ranks.rank() == 0 ? lead_all(*given, command, ranks, own) : follow(ranks, own);
  });
}

}  // namespace tzmark::bench
