// Builds the result document.
#include "cli/document.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <limits>

#include "harness/machine.h"
#include "harness/shortages.h"
#include "subjects/ours.h"
#include "tzmark/io.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

template <typename T>
json or_null(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json to_json(const Sample& sample, std::size_t round) {
  return {{"round", round},
          {"elapsed_ns", sample.elapsed_ns},
          {"sync_ns", or_null(sample.sync_ns)},
          {"cpu_ns", or_null(sample.cpu_ns)},
          {"resident_share", or_null(sample.resident_share)},
          {"device_read_bytes", or_null(sample.device_read_bytes)},
          {"device_written_bytes", or_null(sample.device_written_bytes)},
          {"peak_memory_bytes", or_null(sample.peak_memory_bytes)}};
}

double median_rate(const Measured& measured) { return median_interval(measured.rates()).median; }

bool is_path_rung(const Measured& m, const Description& of) {
  const Description& d = m.subject->description();
  return d.subject == "raw" && d.operation == of.operation && d.io_actual == of.io_actual && !m.samples.empty() &&
         // What goes to a GPU by way of the host is held against reading to where no memory is new.
         (d.target == of.target || (of.target == Target::kDevice && d.target == Target::kSink)) &&
         d.cache == of.cache && d.workload == of.workload && d.threads == of.threads &&
         d.block_bytes == of.block_bytes && d.queue_depth == of.queue_depth;
}

bool is_rung(const Measured& m, Rung rung, const Description& of) {
  const Description& d = m.subject->description();
  return d.subject == "ceiling" && d.detail == rung_name(rung) && !m.samples.empty() && d.threads == of.threads;
}

bool is_rung(const Measured& m, GpuRung rung) {
  const Description& d = m.subject->description();
  return d.subject == "ceiling" && d.detail == rung_name(rung) && !m.samples.empty();
}

// The slowest of the steps that a result is made of, and what part of it was reached.
json bound_by(const Measured& measured, const std::vector<Measured>& all) {
  const Description& d = measured.subject->description();
  if (d.subject != "codec" || d.operation == Operation::kOpen || measured.samples.empty()) return nullptr;
  const bool sha256 = d.verification == "both" || d.verification == "sha256";
  const bool crc32 = d.verification == "both" || d.verification == "crc32";
  std::string rung;
  double rate = std::numeric_limits<double>::infinity();
  const auto consider = [&](const Measured& m, std::string name) {
    if (const double its = median_rate(m); its < rate) {
      rate = its;
      rung = std::move(name);
    }
  };
  for (const Measured& m : all) {
    if (is_path_rung(m, d)) consider(m, fmt::format("path-{}/{}", name_of(d.operation), d.io_actual));
    if (d.target == Target::kDevice) {
      // Which side computes is the codec's choice, so that only what none of both ways gets around counts.
      if (d.operation == Operation::kRead && d.io_actual != "gpudirect" && is_rung(m, GpuRung::kCopy))
        consider(m, "host-to-device");
      continue;
    }
    if (crc32 && is_rung(m, Rung::kCrc32, d)) consider(m, "crc32");
    if (sha256 && is_rung(m, Rung::kSha256, d)) consider(m, "sha256");
    if (d.encrypted && is_rung(m, Rung::kSecretbox, d)) consider(m, "secretbox");
  }
  if (rung.empty()) return nullptr;
  return {{"rung", rung}, {"rate", rate}, {"share", median_rate(measured) / rate}};
}

json cpu_seconds_per_gb(const Measured& measured) {
  std::vector<double> seconds;
  const auto gigabytes = static_cast<double>(measured.subject->description().bytes) / 1e9;
  for (const Sample& sample : measured.samples) {
    if (sample.cpu_ns) seconds.push_back(static_cast<double>(*sample.cpu_ns) / 1e9 / gigabytes);
  }
  if (seconds.empty() || gigabytes == 0) return nullptr;
  return median_interval(std::move(seconds)).median;
}

json operations_per_second(const Measured& measured) {
  std::vector<double> rates;
  const std::uint64_t tensors = measured.subject->description().tensors;
  if (tensors == 0 || measured.samples.empty()) return nullptr;
  for (const Sample& sample : measured.samples) {
    rates.push_back(static_cast<double>(tensors) * 1e9 / static_cast<double>(sample.elapsed_ns));
  }
  return to_json(median_interval(std::move(rates)));
}

json to_json(const Measured& measured, const std::vector<Measured>& all) {
  const Description& d = measured.subject->description();
  json samples = json::array();
  for (std::size_t i = 0; i < measured.samples.size(); ++i) samples.push_back(to_json(measured.samples[i], i));
  const bool writes = d.operation == Operation::kWrite && !measured.samples.empty();
  const bool synced = writes && measured.samples.front().sync_ns.has_value();
  json notes = d.notes;
  std::uint64_t in_place = 0;
  for (const Sample& sample : measured.samples) in_place += sample.transfers_in_place;
  if (in_place != 0) notes.push_back(in_place_note(in_place));
  if (!measured.why.empty()) notes.push_back("not measured: " + measured.why);
  return {{"id", d.id()},
          {"subject", d.subject},
          {"peer", d.peer},
          {"op", name_of(d.operation)},
          {"io", {{"requested", d.io_requested}, {"actual", d.io_actual}}},
          {"layout", or_null(d.layout)},
          {"workload", d.workload},
          {"block_bytes", or_null(d.block_bytes)},
          {"queue_depth", d.queue_depth.value_or(0) != 0 ? json(*d.queue_depth) : json(nullptr)},
          {"threads", or_null(d.threads)},
          {"verification", d.verification},
          {"encrypted", d.encrypted},
          {"memory", name_of(d.target)},
          {"cache", name_of(d.cache)},
          {"bytes", d.bytes},
          {"tensors", d.tensors},
          {"verified_first", d.verified_first},
          {"samples", std::move(samples)},
          {"rate", to_json(median_interval(measured.rates()))},
          {"durable_rate", synced ? to_json(median_interval(measured.durable_rates())) : json(nullptr)},
          {"operations_per_second", operations_per_second(measured)},
          {"cpu_seconds_per_gb", cpu_seconds_per_gb(measured)},
          {"latency_ns", to_json(measured.subject->latency())},
          {"bound_by", bound_by(measured, all)},
          {"gpudirect", d.gpudirect},
          {"notes", std::move(notes)}};
}

json io_path_list() {
  json paths = json::array();
  for (const IoPath& path : io_paths()) {
    const std::string reason = path.why_unavailable();
    paths.push_back({{"name", path.name},
                     {"summary", path.summary},
                     {"variant_of", path.variant_of},
                     {"available", reason.empty()},
                     {"reason", reason.empty() ? json(nullptr) : json(reason)}});
  }
  return paths;
}

}  // namespace

std::vector<CeilingRate> ceilings_of(const std::vector<Measured>& measured) {
  std::vector<CeilingRate> rates;
  for (const Measured& m : measured) {
    const Description& d = m.subject->description();
    if (m.samples.empty()) continue;
    if (d.subject == "ceiling") {
      rates.push_back({d.detail, d.threads.value_or(0), median_interval(m.rates()), ""});
      continue;
    }
    if (d.subject == "raw") {
      rates.push_back({fmt::format("path-{}/{}", name_of(d.operation), d.io_actual), d.threads.value_or(0),
                       median_interval(m.rates()), d.id()});
    }
    // Nobody knows the device but by who reached it: the fastest of them counts.
    if (d.subject == "fio" || (d.subject == "raw" && is_direct(d.io_actual))) {
      rates.push_back(
          {fmt::format("device-{}", name_of(d.operation)), d.threads.value_or(0), median_interval(m.rates()), d.id()});
    }
  }
  return rates;
}

Document::Document(std::vector<std::string> command, std::string directory) {
  json_ = {{"schema_version", 1},
           {"kind", "bench"},
           {"tool", {{"name", "tzmark"}, {"version", version()}, {"commit", commit()}}},
           {"command", std::move(command)},
           {"started_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
           {"machine", machine_facts(directory)},
           {"io_paths", io_path_list()},
           {"workloads", json::array()},
           {"results", json::array()},
           {"ceilings", json::array()},
           {"checks", json::array()}};
}

void Document::add_workload(const Workload& workload) {
  json row = {{"name", workload.name},
              {"summary", workload.summary},
              {"tensors", workload.tensors.size()},
              {"data_bytes", workload.data_bytes()},
              {"scaled", workload.scaled}};
  json& list = json_["workloads"];
  if (std::ranges::find(list, row) == list.end()) list.push_back(std::move(row));
}

void Document::add(const std::vector<Measured>& measured) {
  for (const Measured& m : measured) {
    if (m.subject->description().subject != "ceiling") json_["results"].push_back(to_json(m, measured));
  }
  for (const CeilingRate& rung : ceilings_of(measured)) {
    json_["ceilings"].push_back({{"rung", rung.rung},
                                 {"threads", rung.threads},
                                 {"rate", to_json(rung.rate)},
                                 {"note", rung.note.empty() ? json(nullptr) : json(rung.note)}});
  }
}

void Document::add(const std::vector<Check>& checks) {
  for (const Check& check : checks) json_["checks"].push_back(to_json(check));
}

json Document::finish(unsigned rounds, std::uint64_t seed) {
  json_["rounds"] = rounds;
  json_["seed"] = seed;
  json_["elapsed_ns"] = (std::chrono::steady_clock::now() - begin_) / std::chrono::nanoseconds(1);
  return json_;
}

}  // namespace tzmark::bench
