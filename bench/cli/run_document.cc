// Reads results of tzmark bench and of Google Benchmark; see run_document.h.
#include "cli/run_document.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <set>
#include <string_view>

#include "harness/json_problem.h"
#include "harness/statistics.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

// Facts of the machine that change while it stays the same.
constexpr std::array<std::string_view, 5> kVolatileFacts = {"load_average", "free_bytes", "available_bytes",
                                                            "directory", "pressure"};
// Options that do not change what is measured. Rounds, budget and seed change how well and in which order.
constexpr std::array<std::string_view, 10> kNeutralOptions = {"--json",     "--dir",    "--format", "--progress",
                                                              "--seed",     "--rounds", "--budget", "--calibrate",
                                                              "--markdown", "--live"};
// Members of a result that say what it measures. The rest is what was measured.
constexpr std::array<std::string_view, 19> kParameters = {
    "subject",  "detail",      "group",       "peer",    "op",           "io",        "layout",
    "workload", "block_bytes", "queue_depth", "threads", "verification", "encrypted", "memory",
    "cache",    "bytes",       "tensors",     "pages",   "durable"};
// Parameters that a result shares with its raw path. Reads into GPU memory have one that reuses host memory.
constexpr std::array<std::string_view, 10> kPathParameters = {
    "group", "op", "io", "workload", "block_bytes", "queue_depth", "threads", "cache", "memory", "pages"};
constexpr std::string_view kToDisk = " to disk";
constexpr std::string_view kAsFio = "as-fio";  // detail of raw transfers that imitate fio instead of the codec

template <std::size_t kCount>
bool contains(const std::array<std::string_view, kCount>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

[[noreturn]] void refuse(const std::string& file, const std::string& why) {
  throw Error(ErrorCode::kReadFailed, fmt::format("{}: {}", file, why));
}

// Adds the members of an object, and of objects in it, as "name.member".
void flatten(const std::string& name, const json& value, std::map<std::string, json>& facts) {
  if (!value.is_object()) {
    facts[name] = value;
    return;
  }
  for (const auto& [member, inner] : value.items()) {
    if (!contains(kVolatileFacts, member)) flatten(name + "." + member, inner, facts);
  }
}

// Adds the words before the first option, and each option of a command line with its values; "--option=value" and
// "--option value" are the same.
void add_command(const json& command, std::map<std::string, json>& facts) {
  std::string option;
  for (const json& token : command) {
    const auto word = token.get<std::string>();
    if (!word.starts_with("--")) {
      if (!contains(kNeutralOptions, option)) facts[option.empty() ? "command" : "command " + option].push_back(word);
      continue;
    }
    const std::size_t equals = word.find('=');
    option = word.substr(0, equals);
    if (contains(kNeutralOptions, option)) continue;
    json& values = facts["command " + option];
    if (values.is_null()) values = json::array();
    if (equals != std::string::npos) values.push_back(word.substr(equals + 1));
  }
}

Series& add_series(RunDocument& run, const std::string& id, const std::string& subject) {
  const auto [found, is_new] = run.series.try_emplace(id);
  if (!is_new) refuse(run.file, fmt::format("two results have the id '{}', so their samples cannot be told apart", id));
  found->second.subject = subject;
  return found->second;
}

double rate_of(const RunDocument& run, const std::string& id, double amount, double time) {
  const double rate = amount / time;
  if (!(time > 0 && rate > 0 && std::isfinite(rate))) {
    refuse(run.file, fmt::format("a sample of '{}' has no finite positive rate: {} in {}", id, amount, time));
  }
  return rate;
}

void add_result(RunDocument& run, const json& result) {
  const auto id = result.at("id").get<std::string>();
  const auto bytes = result.at("bytes").get<double>();
  Series& series = add_series(run, id, result.at("subject").get<std::string>());
  for (const auto& [name, value] : result.items()) {
    if (contains(kParameters, name)) flatten(name, value, series.parameters);
  }
  const json& samples = result.at("samples");
  if (samples.empty() && !result.at("notes").empty()) series.why_empty = result["notes"].back().get<std::string>();
  Series durable = series;
  std::size_t index = 0;
  for (const json& sample : samples) {
    const auto elapsed_ns = sample.at("elapsed_ns").get<double>();
    const json& sync_ns = sample.at("sync_ns");
    const std::size_t round = sample.value("round", index++);
    if (!series.rates.emplace(round, rate_of(run, id, bytes * 1e9, elapsed_ns)).second) {
      refuse(run.file, fmt::format("'{}' has two samples of round {}", id, round));
    }
    if (sync_ns.is_null()) continue;
    if (sync_ns.get<double>() < 0) refuse(run.file, fmt::format("a sample of '{}' has a negative sync_ns", id));
    durable.rates[round] = rate_of(run, id, bytes * 1e9, elapsed_ns + sync_ns.get<double>());
  }
  if (!durable.rates.empty()) add_series(run, id + std::string(kToDisk), series.subject) = std::move(durable);
}

// A thousand times the largest result of tzmark bench: what is larger is another file, and would fill the memory.
constexpr std::size_t kResultBytesMax = 1 << 30;

// A FIFO that no process writes to is empty.
std::string content_of(const std::string& file) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) throw Error(ErrorCode::kOpenFailed, fmt::format("cannot open {}: {}", file, std::strerror(errno)));
  struct stat status {};
  const bool is_known = ::fstat(fd, &status) == 0;
  ::fcntl(fd, F_SETFL, 0);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream(::fdopen(fd, "r"), &std::fclose);
  if (!stream) {
    ::close(fd);
    throw std::bad_alloc();
  }
  // Devices may have no end.
  if (!is_known || (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))) {
    refuse(file, "is neither a regular file nor a pipe");
  }
  std::string text;
  std::array<char, 65536> block;
  for (std::size_t got = 0; (got = std::fread(block.data(), 1, block.size(), stream.get())) > 0;) {
    if (text.size() + got > kResultBytesMax) refuse(file, fmt::format("has more than {} bytes", kResultBytesMax));
    text.append(block.data(), got);
  }
  if (std::ferror(stream.get()) != 0) refuse(file, fmt::format("cannot be read: {}", std::strerror(errno)));
  return text;
}

json parameter(const Series& series, const std::string& name) {
  const auto found = series.parameters.find(name);
  return found == series.parameters.end() ? json() : found->second;
}

// Returns what a result shares with its raw path: parameters, and whether its time includes the fsync.
std::string path_of(const std::string& id, const Series& series, const json& memory) {
  json path = {id.ends_with(kToDisk)};
  for (const std::string_view name : kPathParameters) {
    path.push_back(name == "memory" ? memory : parameter(series, name == "io" ? "io.actual" : std::string(name)));
  }
  return path.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Returns what a result shares with the fio that tells a change of the machine from one of tzmark's I/O layer.
std::string witness_key(const std::string& id, const Series& series) {
  json key = {id.ends_with(kToDisk)};
  for (const char* name : {"op", "io.actual", "cache"}) key.push_back(parameter(series, name));
  return key.dump(-1, ' ', false, json::error_handler_t::replace);
}

void find_witnesses(RunDocument& run) {
  std::map<std::string, std::string> fios;  // ids by key
  for (const auto& [id, series] : run.series) {
    if (series.subject == "fio" && !series.rates.empty()) fios.emplace(witness_key(id, series), id);
  }
  for (auto& [id, series] : run.series) {
    const auto found = fios.find(witness_key(id, series));
    if (found != fios.end()) series.witness = found->second;
  }
}

void find_references(RunDocument& run) {
  std::map<std::string, std::string> raws;  // ids by path
  for (const auto& [id, series] : run.series) {
    if (series.subject != "raw" || series.rates.empty() || parameter(series, "detail") == kAsFio) continue;
    raws.emplace(path_of(id, series, parameter(series, "memory")), id);
  }
  for (auto& [id, series] : run.series) {
    if (series.subject != "codec") continue;
    const json memory = parameter(series, "memory");
    auto found = raws.find(path_of(id, series, memory));
    if (found == raws.end() && memory == "device") found = raws.find(path_of(id, series, "sink"));
    if (found != raws.end()) series.reference = found->second;
  }
}

void read_tzmark(RunDocument& run, const json& document) {
  const json& tool = document.at("tool");
  run.tool = fmt::format("tzmark {} ({})", tool.at("version").get<std::string>(), tool.at("commit").get<std::string>());
  run.facts["document"] = "tzmark";
  if (tool.contains("measuring_core")) run.facts["measuring core"] = tool["measuring_core"];
  flatten("machine", document.at("machine"), run.facts);
  for (const json& workload : document.at("workloads")) {
    for (const char* member : {"tensors", "data_bytes", "scaled"}) {
      run.facts[fmt::format("workload {} {}", workload.at("name").get<std::string>(), member)] = workload.at(member);
    }
  }
  add_command(document.at("command"), run.facts);
  run.load = document["machine"].at("load_average").at(0).get<double>();
  run.cores = document["machine"].at("cpu").at("cores").get<double>();
  for (const json& result : document.at("results")) add_result(run, result);
  find_references(run);
  find_witnesses(run);
  if (!document.at("checks").empty() || !document.at("duration_s").is_null()) {
    for (auto& [id, series] : run.series) series.shares_rounds = false;
  }
}

void read_google(RunDocument& run, const json& document) {
  static const std::map<std::string, double> kUnits = {{"ns", 1e9}, {"us", 1e6}, {"ms", 1e3}, {"s", 1}};
  const json& context = document.at("context");
  run.tool = "Google Benchmark";
  run.facts["document"] = "Google Benchmark";
  for (const char* fact :
       {"host_name", "num_cpus", "cpu_scaling_enabled", "caches", "library_version", "library_build_type"}) {
    if (context.contains(fact)) run.facts[std::string("context ") + fact] = context[fact];
  }
  run.cores = context.value("num_cpus", 0.0);
  if (context.contains("load_avg") && !context["load_avg"].empty()) run.load = context["load_avg"][0].get<double>();
  for (const json& entry : document.at("benchmarks")) {
    if (entry.value("run_type", "iteration") != "iteration") continue;
    const std::string id = entry.value("run_name", entry.at("name").get<std::string>());
    Series& series = run.series[id];
    series.subject = "benchmark";
    series.parameters["threads"] = entry.value("threads", 1);
    if (entry.value("error_occurred", false)) {
      series.why_empty = entry.value("error_message", "it failed");
      continue;
    }
    const double per_second = kUnits.at(entry.value("time_unit", "ns"));
    const auto time = entry.at("real_time").get<double>();
    const std::size_t repetition = entry.value("repetition_index", series.rates.size());
    if (!series.rates.emplace(repetition, rate_of(run, id, per_second, time)).second) {
      refuse(run.file, fmt::format("two results have the id '{}', so their samples cannot be told apart", id));
    }
  }
  // A benchmark of which a repetition failed was not measured.
  for (auto& [id, series] : run.series) {
    if (!series.why_empty.empty()) series.rates.clear();
  }
}

json fact_of(const std::map<std::string, json>& facts, const std::string& name) {
  const auto found = facts.find(name);
  return found == facts.end() ? json() : found->second;
}

void add_differences(const std::string& prefix, const std::map<std::string, json>& expected,
                     const std::map<std::string, json>& found, const std::string& file,
                     std::vector<Difference>& differences) {
  std::set<std::string> names;
  for (const auto& [name, value] : expected) names.insert(name);
  for (const auto& [name, value] : found) names.insert(name);
  for (const std::string& name : names) {
    const json a = fact_of(expected, name);
    const json b = fact_of(found, name);
    if (a != b) differences.push_back({prefix + name, file, a, b});
  }
}

}  // namespace

bool Series::is_of_build() const {
  return is_judged() || subject == "raw" || (subject == "peer" && parameter(*this, "peer.name") == "tzmark-python");
}

json parse_file(const std::string& file) {
  // Results have 7 levels. What walks through them calls itself for each.
  constexpr int kLevelsMax = 64;
  const std::string text = content_of(file);
  const auto refuse_depth = [&](int depth, json::parse_event_t, const json&) {
    if (depth > kLevelsMax) refuse(file, fmt::format("nests values more than {} levels deep", kLevelsMax));
    return true;
  };
  // The library stops at a NUL byte, which would hide all that follows it.
  if (text.find('\0') != text.npos) refuse(file, "has a NUL byte, which no JSON has");
  return json::parse(text, refuse_depth, /*allow_exceptions=*/false);
}

RunDocument load_run(const std::string& file) {
  const json document = parse_file(file);
  RunDocument run;
  run.file = file;
  try {
    if (document.is_object() && document.value("kind", "") == "bench" && document.value("schema_version", 0) == 1) {
      read_tzmark(run, document);
      return run;
    }
    if (document.is_object() && document.contains("context") && document.contains("benchmarks")) {
      read_google(run, document);
      return run;
    }
  } catch (const json::exception& error) {
    refuse(file, json_problem(error));
  } catch (const std::out_of_range&) {
    refuse(file, "unknown time unit");
  }
  refuse(file, "is not a result of tzmark bench or Google Benchmark, or has another schema version");
}

std::vector<Difference> differences_of(const std::vector<RunDocument>& documents) {
  std::vector<Difference> differences;
  std::map<std::string, const Series*> first_of;
  for (const RunDocument& run : documents) {
    add_differences("", documents.front().facts, run.facts, run.file, differences);
    for (const auto& [id, series] : run.series) {
      const auto [found, is_new] = first_of.try_emplace(id, &series);
      if (!is_new) add_differences(id + ": ", found->second->parameters, series.parameters, run.file, differences);
    }
  }
  return differences;
}

std::vector<double> log_rates(const Series& series) {
  std::vector<double> logs;
  for (const auto& [round, rate] : series.rates) logs.push_back(std::log(rate));
  return logs;
}

std::vector<double> log_ratios(const Series& series, const Series& reference) {
  const bool by_round = series.shares_rounds && std::ranges::all_of(series.rates, [&](const auto& sample) {
                          return reference.rates.contains(sample.first);
                        });
  const double median = log_rate(reference);
  std::vector<double> logs;
  for (const auto& [round, rate] : series.rates) {
    logs.push_back(std::log(rate) - (by_round ? std::log(reference.rates.at(round)) : median));
  }
  return logs;
}

double log_rate(const Series& series) { return median_interval(log_rates(series)).median; }

double log_ratio(const Series& series, const Series& reference) {
  return median_interval(log_ratios(series, reference)).median;
}

}  // namespace tzmark::bench
