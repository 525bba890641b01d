// See cluster/cluster_subject.h.
#include "cluster/cluster_subject.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "cluster/stragglers.h"
#include "harness/or_null.h"
#include "harness/statistics.h"
#include "tzmark/error.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

json to_json(const ClusterFiles& files) {
  return {{"do", "set-up"},
          {"directory", files.directory},
          {"model", files.model},
          {"with_shards", files.with_shards},
          {"with_writes", files.with_writes},
          {"workload", files.workload},
          {"shard_bytes", files.shard_bytes},
          {"written_bytes", files.written_bytes}};
}

json to_json(const RankWorker::Order& order) {
  return {{"do", "run"}, {"pattern", name_of(order.pattern)}, {"shift", order.shift}, {"is_check", order.is_check}};
}

// The order is one that to_json has made.
RankRun carry_out(RankWorker& own, const json& order) {
  if (order.at("do") == "adopt") return own.adopt(order.at("directory"));
  if (order.at("do") == "set-up") {
    return own.set_up({.directory = order.at("directory"),
                       .model = order.at("model"),
                       .with_shards = order.at("with_shards"),
                       .with_writes = order.at("with_writes"),
                       .workload = order.at("workload"),
                       .shard_bytes = order.at("shard_bytes"),
                       .written_bytes = order.at("written_bytes")});
  }
  return own.run({.pattern = *pattern_from_name(order.at("pattern").get<std::string>()),
                  .shift = order.at("shift"),
                  .is_check = order.at("is_check")});
}

json rank_json(const RankRun& run, std::size_t rank) {
  return {{"rank", rank},
          {"host", run.host},
          {"role", run.role},
          {"open_ns", or_null(run.open_ns)},
          {"stall_ns", or_null(run.stall_ns)},
          {"elapsed_ns", run.elapsed_ns},
          {"bytes", run.bytes},
          {"resident_share", or_null(run.resident_share)},
          {"device_read_bytes", or_null(run.device_read_bytes)},
          {"device_written_bytes", or_null(run.device_written_bytes)}};
}

// Adds what a host tells to what others have told.
void add(const std::optional<std::uint64_t>& of_host, std::optional<std::uint64_t>& of_all) {
  if (of_host) of_all = of_all.value_or(0) + *of_host;
}

// Of one sample, over the ranks.
struct Spread {
  double first_s = 0, last_s = 0, median_s = 0;
  std::optional<double> open_s = {}, stall_s = {};  // of the last rank; nothing where there is no such time
  double jain = 1;
};

std::optional<double> last_of(const json& ranks, const char* time_ns) {
  std::optional<double> last;
  for (const json& rank : ranks) {
    if (!rank.at(time_ns).is_null()) last = std::max(last.value_or(0), rank.at(time_ns).get<double>() / 1e9);
  }
  return last;
}

Spread spread_of(const json& ranks) {
  std::vector<double> seconds;
  std::vector<double> rates;
  Spread spread;
  for (const json& rank : ranks) {
    seconds.push_back(rank.at("elapsed_ns").get<double>() / 1e9);
    rates.push_back(rank.at("bytes").get<double>() / seconds.back());
  }
  spread.open_s = last_of(ranks, "open_ns");
  spread.stall_s = last_of(ranks, "stall_ns");
  spread.first_s = std::ranges::min(seconds);
  spread.last_s = std::ranges::max(seconds);
  spread.jain = jain_index(rates);
  spread.median_s = median_interval(std::move(seconds)).median;
  return spread;
}

template <typename Of>
json interval_over(const std::vector<Spread>& spreads, const Of& of) {
  std::vector<double> values;
  for (const Spread& spread : spreads) values.push_back(of(spread));
  return to_json(median_interval(std::move(values)));
}

json interval_if_told(const std::vector<Spread>& spreads, std::optional<double> Spread::*time_s) {
  if (!(spreads.front().*time_s)) return nullptr;
  return interval_over(spreads, [&](const Spread& s) { return (s.*time_s).value_or(0); });
}

json by_rank(const std::vector<Sample>& samples) {
  json rows = json::array();
  const json& first = samples.front().ranks;
  for (std::size_t rank = 0; rank < first.size(); ++rank) {
    std::vector<double> seconds;
    for (const Sample& sample : samples) {
      seconds.push_back(sample.ranks.at(rank).at("elapsed_ns").get<double>() / 1e9);
    }
    rows.push_back({{"rank", rank},
                    {"host", first.at(rank).at("host")},
                    {"elapsed_s", to_json(median_interval(std::move(seconds)))}});
  }
  return rows;
}

// Null where it cannot be told.
json slow_ranks(Pattern pattern, const std::vector<Sample>& samples) {
  const std::size_t ranks = samples.front().ranks.size();
  if (is_exchange(pattern) || is_write(pattern) || ranks < kStragglerWorkersMin ||
      samples.size() < straggler_laps_min(ranks)) {
    return nullptr;
  }
  // Where parts differ, a rank must have had all of them.
  if (pattern != Pattern::kSame && samples.size() < ranks) return nullptr;
  std::vector<std::vector<double>> durations;
  for (const Sample& sample : samples) {
    std::vector<double>& lap = durations.emplace_back();
    // A slice may have more bytes than another one.
    for (const json& rank : sample.ranks) {
      lap.push_back(rank.at("elapsed_ns").get<double>() / std::max(1.0, rank.at("bytes").get<double>()));
    }
  }
  json slow = json::array();
  for (const Straggler& one : find_stragglers(durations)) {
    slow.push_back({{"rank", one.worker},
                    {"host", samples.front().ranks.at(one.worker).at("host")},
                    {"ratio", one.ratio},
                    {"low", one.low},
                    {"p", one.p}});
  }
  return slow;
}

}  // namespace

std::vector<RankRun> ClusterLead::collect(const RankRun& mine) {
  std::vector<RankRun> runs;
  for (const std::string& text : ranks_.gather(to_text(mine))) runs.push_back(rank_run_from(text));
  throw_problem_of(runs);
  begin_together(runs);
  return runs;
}

std::vector<RankRun> ClusterLead::adopt(const std::string& directory) {
  ranks_.from_first(json{{"do", "adopt"}, {"directory", directory}}.dump());
  return collect(own_.adopt(directory));
}

std::vector<RankRun> ClusterLead::set_up(const ClusterFiles& files) {
  ranks_.from_first(to_json(files).dump());
  return collect(own_.set_up(files));
}

std::vector<RankRun> ClusterLead::run(const RankWorker::Order& order) {
  ranks_.from_first(to_json(order).dump());
  return collect(own_.run(order));
}

void ClusterLead::end() { ranks_.from_first(json{{"do", "end"}}.dump()); }

void follow(Ranks& ranks, RankWorker& own) {
  while (true) {
    const json order = json::parse(ranks.from_first(""));
    if (order.at("do") == "end") return;
    ranks.gather(to_text(carry_out(own, order)));
  }
}

ClusterSubject::ClusterSubject(ClusterLead& lead, Pattern pattern, const std::string& model, Cache cache)
    : lead_(lead), pattern_(pattern) {
  RunDescription& d = description_;
  d.subject = "cluster";
  d.detail = fmt::format("{} n{}", name_of(pattern), lead.ranks().size());
  d.operation = is_write(pattern) ? FileOperation::kWrite : FileOperation::kRead;
  d.cache = is_write(pattern) ? Cache::kNone : cache;
  if (is_write(pattern)) {
    if (pattern == Pattern::kSegments) d.layout = "v5-segments";
    d.verification = pattern == Pattern::kSegments ? "both" : "sha256";
    d.notes.push_back("the time of a write is until it is durable and has its name");
  }
  d.target = Target::kHugePages;
  d.pages = Pages::kHuge;
  d.workload = d.workload_label = model;
  d.tensors = lead.own().tensors();
  d.verified_first = true;
  const IoSettings& moving = lead.own().moving();
  d.io_requested = moving.io;
  d.io_actual = std::string(lead.own().io_path());
  d.block_bytes = moving.block_bytes;
  d.queue_depth = moving.queue_depth;
  d.threads = moving.threads;
}

void ClusterSubject::verify() {
  description_.bytes = 0;
  for (const RankRun& run : lead_.run({.pattern = pattern_, .is_check = true})) description_.bytes += run.bytes;
}

Sample ClusterSubject::run() {
  // Shares that all ranks wait for are the same in any order, and MPI gathers them in its own.
  const unsigned shift = pattern_ == Pattern::kGather || is_write(pattern_) ? 0 : runs_++;
  const std::vector<RankRun> runs = lead_.run({.pattern = pattern_, .shift = shift});
  Sample sample;
  sample.ranks = json::array();
  sample.cpu_ns = 0;
  for (std::size_t rank = 0; rank < runs.size(); ++rank) {
    const RankRun& run = runs[rank];
    sample.elapsed_ns = std::max(sample.elapsed_ns, run.elapsed_ns);
    *sample.cpu_ns += run.cpu_ns;
    if (run.resident_share) {
      const double before = sample.resident_share.value_or(*run.resident_share);
      sample.resident_share = worse_share(description_.cache, before, *run.resident_share);
    }
    add(run.device_read_bytes, sample.device_read_bytes);
    add(run.device_written_bytes, sample.device_written_bytes);
    sample.ranks.push_back(rank_json(run, rank));
  }
  return sample;
}

std::uint64_t ClusterSubject::unique_bytes() const {
  switch (pattern_) {
    case Pattern::kSliced:
      return lead_.own().tensor_bytes();
    case Pattern::kSharded:
    case Pattern::kSegments:
    case Pattern::kCheckpoint:
      return description_.bytes;
    case Pattern::kSame:
    case Pattern::kRotated:
    case Pattern::kBroadcast:
    case Pattern::kGather:
      break;
  }
  return lead_.own().model_bytes();
}

void ClusterSubject::add_figures(const std::vector<Sample>& samples) {
  if (samples.empty()) return;
  std::vector<Spread> spreads;
  std::vector<double> amplification;
  std::set<std::string> hosts;
  for (const Sample& sample : samples) {
    spreads.push_back(spread_of(sample.ranks));
    for (const json& rank : sample.ranks) hosts.insert(rank.at("host").get<std::string>());
    const auto moved = is_write(pattern_) ? sample.device_written_bytes : sample.device_read_bytes;
    if (moved && unique_bytes() > 0) {
      amplification.push_back(static_cast<double>(*moved) / static_cast<double>(unique_bytes()));
    }
  }
  description_.cluster = {
      {"pattern", name_of(pattern_)},
      {"ranks", samples.front().ranks.size()},
      {"hosts", hosts.size()},
      {"unique_bytes", unique_bytes()},
      {"last_s", interval_over(spreads, [](const Spread& s) { return s.last_s; })},
      {"first_s", interval_over(spreads, [](const Spread& s) { return s.first_s; })},
      {"open_s", interval_if_told(spreads, &Spread::open_s)},
      {"stall_s", interval_if_told(spreads, &Spread::stall_s)},
      {"spread", interval_over(spreads, [](const Spread& s) { return (s.last_s - s.median_s) / s.median_s; })},
      {"jain", interval_over(spreads, [](const Spread& s) { return s.jain; })},
      {"storage_bytes_per_byte", amplification.empty() ? json() : to_json(median_interval(std::move(amplification)))},
      {"by_rank", by_rank(samples)},
      {"slow", slow_ranks(pattern_, samples)}};
}

}  // namespace tzmark::bench
