// tzmark bench against OTHER_TZMARK: this build and another one in turn, until it is decided whether this one is
// slower.
//
// Exit status: 0 no line is slower; 1 a line is; 2 builds whose measuring core or lines differ, or a line that is not
// decided.
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "cli/bench_commands.h"
#include "cli/bench_options.h"
#include "cli/bench_profile.h"
#include "cli/data_size.h"
#include "cli/result_document.h"
#include "cli/run_program.h"
#include "cli/turns.h"
#include "cli/worker.h"
#include "harness/cgroup.h"
#include "harness/interruption.h"
#include "harness/machine.h"
#include "harness/or_null.h"
#include "harness/sequential.h"
#include "harness/statistics.h"
#include "subjects/content.h"
#include "tzmark/error.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

// Of any false claim over all lines, as in compare.
constexpr double kAlpha = 0.01;

struct AgainstOptions {
  std::string other;  // another tzmark
  BenchOptions subjects;
  ResultOptions result;
  std::uint64_t seed = 1, budget_s = 600;
  double effect = kChangeEffect;
  bool force = false;
};

// The options that both builds get. Defaults are spelled out, because those of the builds may differ; a queue depth of
// 0 stays, because the default depth of a path is part of a build.
std::vector<std::string> worker_options(const BenchOptions& options) {
  std::vector<std::string> words = {"bench",          "worker",       "--dir",        options.directory, "--workload",
                                    options.workload, "--layout",     options.layout, "--cache",         options.cache,
                                    "--memory",       options.memory, "--compute",    options.compute};
  const auto add = [&](const char* option, const auto& values) {
    words.insert(words.end(), {option, fmt::format("{}", fmt::join(values, ","))});
  };
  add("--io", options.io);
  add("--op", options.operations);
  add("--verify", options.verifications);
  if (options.block_bytes != BenchOptions().block_bytes) add("--block", options.block_bytes);
  add("--depth", options.queue_depths);
  add("--threads", options.threads);
  words.insert(words.end(), {"--scale", std::to_string(options.scale_bytes)});
  if (options.encrypt) words.emplace_back("--encrypt");
  if (options.no_raw) words.emplace_back("--no-raw");
  return words;
}

// A few lines that cover what releases change: a buffered and a direct path, with and without hashes.
BenchOptions with_defaults(BenchOptions options, std::string& note) {
  constexpr std::uint64_t kScaleBytes = 64 << 20;
  // A process of each build holds its data.
  DataSize size = data_size(options.scale_bytes, kScaleBytes, {.needed = 4, .comfortable = 8}, cgroup_limits());
  options.scale_bytes = size.bytes;
  note = std::move(size.note);
  if (options.memory == "auto") options.memory = "thp";
  if (options.verifications.empty()) options.verifications = {"none", "both"};
  if (options.io.empty()) {
    for (const bool bypasses_cache : {false, true}) {
      const auto path = std::ranges::find_if(io_paths(), [&](const IoPath& row) {
        return row.traits.bypasses_cache == bypasses_cache && row.why_unavailable().empty();
      });
      if (path != io_paths().end()) options.io.emplace_back(path->name);
    }
  }
  return options;
}

// One build: starts its processes, and holds that all of them are the same program.
class Build {
 public:
  Build(const std::string& program, const BenchOptions& options) : argv_{program} {
    const std::vector<std::string> words = worker_options(options);
    argv_.insert(argv_.end(), words.begin(), words.end());
    facts_ = WorkerProcess(argv_).facts();
    // Both sides start in the same way, without a program in front.
    if (!facts_.executable.empty()) argv_.front() = facts_.executable;
  }

  const std::string& program() const { return argv_.front(); }
  const BuildFacts& facts() const { return facts_; }
  // The id of a line, and what it was called before a sample was taken.
  const std::string& id(std::size_t line) const {
    return line < ids_.size() && !ids_[line].empty() ? ids_[line] : facts_.lines[line];
  }

  std::unique_ptr<BuildProcess> start() {
    auto process = std::make_unique<Process>(*this);
    if (process->facts() != facts_) {
      throw Error(ErrorCode::kUsage, fmt::format("{} was replaced while it was measured: {} is now {}", program(),
                                                 facts_.program, process->facts().program));
    }
    return process;
  }

 private:
  // Remembers the ids when it ends.
  struct Process : WorkerProcess {
    explicit Process(Build& build) : WorkerProcess(build.argv_), build_(build) {}
    ~Process() override {
      for (std::size_t i = 0; i < facts().lines.size(); ++i) build_.remember(i, id(i));
    }
    Build& build_;
  };

  void remember(std::size_t line, const std::string& id) {
    ids_.resize(facts_.lines.size());
    if (!id.empty()) ids_[line] = id;
  }

  std::vector<std::string> argv_;
  BuildFacts facts_;
  std::vector<std::string> ids_;
};

std::vector<std::string> missing(const std::vector<std::string>& all, const std::vector<std::string>& from) {
  std::vector<std::string> names;
  for (const std::string& name : all) {
    if (std::ranges::find(from, name) == from.end()) names.push_back(name);
  }
  return names;
}

void require_comparable(const Build& old_build, const Build& new_build, bool force) {
  const BuildFacts& old_facts = old_build.facts();
  const BuildFacts& new_facts = new_build.facts();
  if (old_facts.lines != new_facts.lines) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the builds measure different things with these options: only {} has {}; only {} has {}",
                            old_build.program(), missing(old_facts.lines, new_facts.lines), new_build.program(),
                            missing(new_facts.lines, old_facts.lines)));
  }
  if (new_facts.lines.empty()) throw Error(ErrorCode::kUsage, "with these options there is nothing to measure");
  if (old_facts.measuring_core != new_facts.measuring_core && !force) {
    throw Error(ErrorCode::kUsage,
                fmt::format("the builds measure in different ways, versions {} and {} of the measuring "
                            "core; --force compares them all the same",
                            old_facts.measuring_core, new_facts.measuring_core));
  }
}

std::string verdict_of(const TurnLine& line) {
  if (line.verdict == ChangeVerdict::kSlower) return "REGRESSION";
  // What the laps before a failure say is no verdict on a build that fails.
  return line.why.empty() ? std::string(verdict_name(line.verdict)) : "not measured";
}

bool has_interval(const TurnLine& line) { return line.ratio.interval().low > 0; }

std::optional<double> median_rate_of(const std::vector<double>& seconds_per_byte) {
  if (seconds_per_byte.empty()) return {};
  return 1 / median_interval(seconds_per_byte).median;
}

// What the verdict leaves open, or why there is none.
std::string remark_on(const TurnLine& line) {
  if (!line.why.empty()) return ": " + line.why;
  if (line.failures > 0) return fmt::format(": failed {} times, such as by: {}", line.failures, line.last_failure);
  if (line.verdict != ChangeVerdict::kUndecided) return "";
  return has_interval(line)
             ? fmt::format(": a slow-down of up to {:.1f} % is possible", 100 * (1 - line.ratio.interval().low))
             : ": too few processes for any claim";
}

std::string table_of(const std::vector<TurnLine>& lines, const Build& build) {
  std::size_t width = 4;
  for (std::size_t i = 0; i < lines.size(); ++i) width = std::max(width, build.id(i).size());
  std::string text = fmt::format("{:{}} {:>9} {:>9} {:>6} {:>14} {:>9}  {}\n", "what", width, "old GB/s", "new GB/s",
                                 "ratio", "interval", "processes", "verdict");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const TurnLine& line = lines[i];
    const RatioInterval& ratio = line.ratio.interval();
    const auto rate = [](const std::vector<double>& seconds) {
      const auto median = median_rate_of(seconds);
      return median ? fmt::format("{:.3f}", *median / 1e9) : "-";
    };
    text += fmt::format("{:{}} {:>9} {:>9} {:>6} {:>14} {:>9}  {}{}\n", build.id(i), width, rate(line.old_seconds),
                        rate(line.new_seconds), ratio.pairs > 0 ? fmt::format("{:.3f}", ratio.estimate) : "-",
                        has_interval(line) ? fmt::format("{:.3f} to {:.3f}", ratio.low, ratio.high) : "-",
                        line.ratio.pairs(), verdict_of(line), remark_on(line));
  }
  return text;
}

json to_json(const Build& build) {
  const BuildFacts& facts = build.facts();
  return {{"program", build.program()},
          {"version", facts.version},
          {"commit", facts.commit},
          {"measuring_core", facts.measuring_core},
          {"file", facts.program}};
}

json to_json(const TurnLine& line, const std::string& old_id, const std::string& new_id) {
  const RatioInterval& ratio = line.ratio.interval();
  const bool known = has_interval(line);
  return {{"id", new_id},
          {"old_id", old_id},
          {"old_rate", or_null(median_rate_of(line.old_seconds))},
          {"new_rate", or_null(median_rate_of(line.new_seconds))},
          {"ratio",
           {{"estimate", ratio.pairs > 0 ? json(ratio.estimate) : json()},
            {"low", known ? json(ratio.low) : json()},
            {"high", known ? json(ratio.high) : json()}}},
          {"processes", line.ratio.pairs()},
          {"laps", line.old_seconds.size() / 2},
          {"disturbed_laps", line.disturbed_laps},
          {"failures", line.failures},
          {"verdict", verdict_of(line)},
          {"why", line.why}};
}

void run(const AgainstOptions& given, const std::vector<std::string>& command, int& status) {
  std::string note;  // on the size of the data
  BenchOptions options = with_defaults(given.subjects, note);
  std::optional<ResultFile> file;
  if (!given.result.json_file.empty()) {
    refuse_to_replace(given.result.json_file, {options.profile_file, given.other});
    file.emplace(given.result.json_file);
  }
  // All files are below a directory of this process, so that nothing stays of a worker that was killed.
  Workplace place(options.directory);
  json document = {{"schema_version", 1},
                   {"kind", "bench-against"},
                   {"tool", {{"name", "tzmark"}, {"version", version()}, {"commit", commit()}}},
                   {"command", command},
                   {"started_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
                   {"machine", machine_facts(options.directory)}};
  options.directory = place.directory();
  // posix_spawnp would search a name without a slash in PATH.
  Build old_build(std::filesystem::absolute(given.other), options);
  Build new_build(std::filesystem::read_symlink("/proc/self/exe"), options);
  require_comparable(old_build, new_build, given.force);

  const std::size_t count = new_build.facts().lines.size();
  std::vector<TurnLine> lines(count, TurnLine(kAlpha / static_cast<double>(count)));
  MachineConditions conditions;
  int signal = 0;
  {
    const RoundProgress progress(given.result.progress);
    const Interruption interruption;
    conditions = run_in_turn([&] { return old_build.start(); }, [&] { return new_build.start(); }, lines,
                             {.budget = std::chrono::seconds(given.budget_s),
                              .effect = given.effect,
                              .seed = given.seed,
                              .progress = progress.callback(),
                              .name_of = [&](std::size_t i) { return new_build.id(i); },
                              .before_pair = [&] { place.clear(); },
                              .stop = [] { return Interruption::number() != 0; }});
    signal = Interruption::number();
  }
  // First, so that a closed standard output loses no result.
  json rows = json::array();
  for (std::size_t i = 0; i < count; ++i) rows.push_back(to_json(lines[i], old_build.id(i), new_build.id(i)));
  document["old"] = to_json(old_build);
  document["new"] = to_json(new_build);
  document["alpha"] = kAlpha;
  document["floor"] = kChangeFloor;
  document["effect"] = given.effect;
  document["seed"] = given.seed;
  document["budget_s"] = given.budget_s;
  document["conditions"] = to_json(conditions);
  document["is_complete"] = signal == 0;
  document["warnings"] = json::array();
  if (!note.empty()) document["warnings"].push_back(note);
  for (std::size_t i = 0; i < count; ++i) {
    if (lines[i].failures == 0 || !lines[i].why.empty()) continue;
    document["warnings"].push_back(
        fmt::format("{} failed {} times, such as by: {}", new_build.id(i), lines[i].failures, lines[i].last_failure));
  }
  document["rows"] = std::move(rows);
  if (file) file->commit(document);

  say("old: {} {}, commit {}\nnew: {} {}, commit {}\n", old_build.program(), old_build.facts().version,
      old_build.facts().commit, new_build.program(), new_build.facts().version, new_build.facts().commit);
  if (old_build.facts().program == new_build.facts().program) say("both are the same program\n");
  if (!note.empty()) say("note: {}\n", note);
  say("{}", conditions_text(conditions));
  for (std::size_t i = 0; i < count; ++i) {
    if (old_build.id(i) != new_build.id(i)) say("the old build runs '{}' as '{}'\n", new_build.id(i), old_build.id(i));
  }
  say("{}all intervals together hold with {:.0f} %\n", table_of(lines, new_build), 100 * (1 - kAlpha));

  if (signal != 0) {
    say("note: interrupted: only what was measured until then is here\n");
    // The caller, a shell for example, learns by which signal the program ended. The files go first.
    static_cast<void>(::raise(signal));
    return;
  }
  const auto regressed = [](const TurnLine& line) { return line.verdict == ChangeVerdict::kSlower; };
  if (std::ranges::any_of(lines, regressed)) {
    status = 1;
    return;
  }
  const auto is_unmeasured = [](const TurnLine& line) { return !line.why.empty(); };
  const auto is_open = [&](const TurnLine& line) {
    return !is_unmeasured(line) && line.verdict == ChangeVerdict::kUndecided;
  };
  const auto unmeasured = std::ranges::count_if(lines, is_unmeasured);
  if (const auto open = std::ranges::count_if(lines, is_open); open > 0) {
    throw Error(
        ErrorCode::kUsage,
        fmt::format("{} of {} lines are not decided: raise --budget or --effect, or name fewer paths", open, count));
  }
  if (unmeasured > 0) {
    throw Error(ErrorCode::kUsage,
                fmt::format("{} of {} lines could not be measured, for the reasons in the table: leave them out by "
                            "--io, --op or --cache",
                            unmeasured, count));
  }
}

}  // namespace

void add_against(CLI::App& bench, const std::vector<std::string>& command, int& status) {
  auto given = std::make_shared<AgainstOptions>();
  CLI::App& against = *bench.add_subcommand(
      "against",
      "Run this build and another one in turn, until it is decided whether this one is slower; exit 1 if it is");
  against.add_option("OTHER", given->other, "Another tzmark, such as the last release")
      ->required()
      ->check(CLI::ExistingFile);
  add_directory(against, given->subjects.directory)->required();
  add_subjects(against, given->subjects,
               {.scale = "64MiB", .io = "one through the page cache, and a direct one", .verify = "none,both"});
  add_profile(against, given->subjects);
  add_seed(against, given->seed);
  add_budget(against, given->budget_s);
  against.add_option("--effect", given->effect, "Slow-down to find, as a fraction; smaller ones may go unnoticed")
      ->check(within(0.006, 0.5))
      ->capture_default_str();
  against.add_flag("--force", given->force, "Compare builds that measure in different ways");
  add_result(against, given->result);
  against.callback([given, &against, &command, &status] {
    use_profile(against, given->subjects);
    run(*given, command, status);
  });
}

}  // namespace tzmark::bench
