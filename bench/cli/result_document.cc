// Builds the result document; see result_document.h.
#include "cli/result_document.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ctime>
#include <iterator>
#include <stdexcept>
#include <utility>

#include "cli/bounds.h"
#include "cli/steady.h"
#include "harness/machine.h"
#include "harness/or_null.h"
#include "harness/shortages.h"
#include "subjects/ours.h"
#include "tzmark/digest.h"
#include "tzmark/io.h"
#include "tzmark/secretbox.h"
#include "tzmark/version.h"

namespace tzmark::bench {
namespace {

using nlohmann::json;

json to_json(const RequestCounts& counts) {
  return {{"sent", counts.requests}, {"retries", counts.retries}, {"received_bytes", counts.received_bytes}};
}

json to_json(const Sample& sample, std::size_t round) {
  json of_sample = {{"round", round},
                    {"elapsed_ns", sample.elapsed_ns},
                    {"sync_ns", or_null(sample.sync_ns)},
                    {"cpu_ns", or_null(sample.cpu_ns)},
                    {"resident_share", or_null(sample.resident_share)},
                    {"device_read_bytes", or_null(sample.device_read_bytes)},
                    {"device_written_bytes", or_null(sample.device_written_bytes)},
                    {"peak_memory_bytes", or_null(sample.peak_memory_bytes)},
                    {"requests", sample.requests ? to_json(*sample.requests) : json()},
                    {"began_ns", sample.began_ns},
                    {"position", sample.position},
                    {"other_user_ns", sample.disturbance.other_user_ns},
                    {"steal_ns", sample.disturbance.steal_ns},
                    {"cpu_pressure_ns", or_null(sample.disturbance.cpu_pressure_ns)},
                    {"io_pressure_ns", or_null(sample.disturbance.io_pressure_ns)},
                    {"memory_pressure_ns", or_null(sample.disturbance.memory_pressure_ns)},
                    {"involuntary_switches", sample.disturbance.involuntary_switches},
                    {"minor_faults", sample.disturbance.minor_faults},
                    {"memory_reports", sample.disturbance.memory_reports}};
  if (!sample.ranks.is_null()) of_sample["ranks"] = sample.ranks;
  return of_sample;
}

json cpu_seconds_per_gb(const Measured& measured) {
  std::vector<double> seconds;
  const auto gigabytes = static_cast<double>(measured.description().bytes) / 1e9;
  for (const Sample& sample : measured.samples) {
    if (sample.cpu_ns) seconds.push_back(static_cast<double>(*sample.cpu_ns) / 1e9 / gigabytes);
  }
  if (seconds.empty() || gigabytes == 0) return nullptr;
  return median_interval(std::move(seconds)).median;
}

json operations_per_second(const Measured& measured) {
  std::vector<double> rates;
  const std::uint64_t tensors = measured.description().tensors;
  if (tensors == 0 || measured.samples.empty()) return nullptr;
  for (const Sample& sample : measured.samples) {
    rates.push_back(static_cast<double>(tensors) * 1e9 / static_cast<double>(sample.elapsed_ns));
  }
  return to_json(median_interval(std::move(rates)));
}

json pages_json(const RunDescription& d) {
  if (!d.pages) return nullptr;
  return {{"requested", name_of(*d.pages)},
          {"actual", d.huge_share ? json(kind_of(*d.huge_share)) : json()},
          {"huge_share", or_null(d.huge_share)}};
}

json to_json(const Bound& bound) {
  return {{"rung", bound.rung},
          {"rate", bound.rate},
          {"share", bound.share},
          {"low", or_null(bound.low)},
          {"high", or_null(bound.high)}};
}

json latency_json(const Subject& subject) {
  json latency = to_json(subject.latency());
  if (latency.is_null()) return latency;
  latency["submission"] = to_json(subject.submission());
  latency["first_touch"] = subject.description().first_touch;
  return latency;
}

json to_json(const Measured& measured, const std::vector<Measured>& all) {
  const RunDescription& d = measured.description();
  json samples = json::array();
  for (std::size_t i = 0; i < measured.samples.size(); ++i) samples.push_back(to_json(measured.samples[i], i));
  const bool writes = d.operation == FileOperation::kWrite && !measured.samples.empty();
  const bool synced = writes && measured.samples.front().sync_ns.has_value();
  const std::optional<Bound> bound = bound_by(measured, all);
  json result = {{"id", d.id()},
                 {"subject", d.subject},
                 {"detail", d.detail.empty() ? json() : json(d.detail)},
                 {"group", d.group.empty() ? json() : json(d.group)},
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
                 {"pages", pages_json(d)},
                 {"cache", name_of(d.cache)},
                 {"bytes", d.bytes},
                 {"tensors", d.tensors},
                 {"verified_first", d.verified_first},
                 {"samples", std::move(samples)},
                 {"rate", to_json(median_interval(measured.rates()))},
                 {"durable_rate", synced ? to_json(median_interval(measured.durable_rates())) : json(nullptr)},
                 {"operations_per_second", operations_per_second(measured)},
                 {"cpu_seconds_per_gb", cpu_seconds_per_gb(measured)},
                 {"latency_ns", latency_json(*measured.subject)},
                 {"bound_by", bound ? to_json(*bound) : json()},
                 {"steady", steady_json(measured)},
                 {"gpudirect", d.gpudirect},
                 {"notes", notes_of(measured)}};
  if (!d.cluster.is_null()) result["cluster"] = d.cluster;
  return result;
}

std::string_view path_of_url(const std::string& url) { return url[0] == 's' || url[0] == 'S' ? "s3" : "http"; }

json to_json(const PathTraits& traits) {
  return {{"bypasses_cache", traits.bypasses_cache},
          {"drops_pages", traits.drops_pages},
          {"starts_writeback", traits.starts_writeback},
          {"is_asynchronous", traits.is_asynchronous},
          {"polls_submissions", traits.polls_submissions},
          {"maps_file", traits.maps_file},
          {"uses_stdio", traits.uses_stdio},
          {"moves_device_memory", traits.moves_device_memory},
          {"is_fork_safe", traits.is_fork_safe},
          {"needs_file_name", traits.needs_file_name}};
}

}  // namespace

json io_path_facts(const std::string& url) {
  json paths = json::array();
  for (const IoPath& path : io_paths()) {
    if (url.empty() ? path.traits.is_remote : path.name != path_of_url(url)) continue;
    const std::string reason = path.why_unavailable();
    paths.push_back({{"name", path.name},
                     {"summary", path.summary},
                     {"variant_of", path.variant_of},
                     {"traits", to_json(path.traits)},
                     {"available", reason.empty()},
                     {"reason", reason.empty() ? json(nullptr) : json(reason)}});
  }
  return paths;
}

json tool_facts() {
  return {{"name", "tzmark"},
          {"version", version()},
          {"commit", commit()},
          {"measuring_core", kMeasuringCoreVersion},
          {"kernels", {{"sha256", sha256_kernel()}, {"encryption", secretbox_kernel()}}}};
}

json to_json(const MachineConditions& conditions) {
  return {{"laps", conditions.laps}, {"disturbed_laps", conditions.disturbed_laps}, {"was_busy", conditions.was_busy}};
}

std::vector<std::string> notes_of(const Measured& measured) {
  std::vector<std::string> notes = measured.description().notes;
  std::uint64_t in_place = 0;
  for (const Sample& sample : measured.samples) in_place += sample.transfers_in_place;
  if (in_place != 0) notes.push_back(in_place_note(in_place));
  std::uint64_t retries = 0;
  for (const Sample& sample : measured.samples) retries += sample.requests ? sample.requests->retries : 0;
  if (retries != 0) notes.push_back(fmt::format("{} requests were repeated", retries));
  if (!measured.why.empty()) notes.push_back("not measured: " + measured.why);
  return notes;
}

std::vector<CeilingRate> ceilings_of(const std::vector<Measured>& measured) {
  std::vector<CeilingRate> rates;
  for (const Measured& m : measured) {
    const RunDescription& d = m.description();
    if (m.samples.empty()) continue;
    if (d.subject == "ceiling") {
      rates.push_back(
          {d.detail, d.threads.value_or(0), median_interval(m.rates()), fmt::format("{}", fmt::join(d.notes, "; "))});
      continue;
    }
    if (d.subject == "raw" && d.detail.empty()) {
      rates.push_back({fmt::format("path-{}/{}", name_of(d.operation), d.io_actual), d.threads.value_or(0),
                       median_interval(m.rates()), d.id()});
    }
    // The device ceiling is the fastest subject that bypasses the cache.
    if (d.subject == "fio" || (d.subject == "raw" && path_traits(d.io_actual).bypasses_cache)) {
      rates.push_back(
          {fmt::format("device-{}", name_of(d.operation)), d.threads.value_or(0), median_interval(m.rates()), d.id()});
    }
  }
  return rates;
}

std::vector<std::string> shown_command(std::vector<std::string> command) {
  for (std::string& word : command) word = display_name(word);
  return command;
}

Document::Document(std::vector<std::string> command, std::string directory) {
  json_ = {{"schema_version", 1},
           {"kind", "bench"},
           {"tool", tool_facts()},
           {"command", shown_command(std::move(command))},
           {"started_at", fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)))},
           {"duration_s", nullptr},
           {"machine", machine_facts(directory)},
           {"io_paths", io_path_facts(is_url(directory) ? directory : "")},
           {"workloads", json::array()},
           {"results", json::array()},
           {"skipped", json::array()},
           {"ceilings", json::array()},
           {"checks", json::array()},
           {"is_complete", true}};
  add(MachineConditions());
}

void Document::add_workload(const Workload& workload) {
  json row = {{"name", workload.name},
              {"summary", workload.summary},
              {"tensors", workload.tensors.size()},
              {"data_bytes", workload.data_bytes()},
              {"scaled", workload.scaled},
              {"scaled_from", workload.scaled == 1 ? json() : json(workload.full_bytes())}};
  json& list = json_["workloads"];
  if (std::ranges::find(list, row) == list.end()) list.push_back(std::move(row));
}

void Document::add(const std::vector<Measured>& measured) {
  for (const Measured& m : measured) {
    if (m.description().subject == "ceiling") continue;
    // Programs find a result by its id, and would take one of two for the other.
    const std::string id = m.description().id();
    if (!ids_.insert(id).second) {
      if (m.samples.empty()) continue;
      throw std::logic_error("two results are named '" + id + "'");
    }
    json_["results"].push_back(to_json(m, measured));
    if (m.samples.empty()) json_["skipped"].push_back({{"id", id}, {"reason", m.why}, {"has_failed", m.has_failed}});
  }
  for (const CeilingRate& rung : ceilings_of(measured)) {
    json_["ceilings"].push_back({{"rung", rung.rung},
                                 {"threads", rung.threads},
                                 {"rate", to_json(rung.rate)},
                                 {"note", rung.note.empty() ? json(nullptr) : json(rung.note)}});
  }
}

void Document::add(const std::vector<RatioCheck>& checks) {
  for (const RatioCheck& check : checks) json_["checks"].push_back(to_json(check));
}

void Document::add_interruption(std::string note) {
  json_["is_complete"] = false;
  add_note(std::move(note));
}

void Document::add(const MachineConditions& conditions) { json_["conditions"] = to_json(conditions); }

std::vector<std::string> cold_read_warnings(const json& machine) {
  std::vector<std::string> texts;
  if (!machine["hypervisor"].is_null()) {
    const auto kind = machine["hypervisor"].get<std::string>();
    texts.push_back(
        fmt::format("this is a virtual machine{}: cold means its own page cache, and the host may serve reads from "
                    "memory",
                    kind == "unknown" ? "" : " (" + kind + ")"));
  }
  texts.emplace_back("the cache of the device is not known here: data that fits into it is not read from the medium");
  return texts;
}

std::vector<std::string> Document::warnings() const {
  std::vector<std::string> texts = notes_;
  const json& machine = json_["machine"];
  const auto mib = [](const json& bytes) { return bytes.get<std::uint64_t>() >> 20; };
  for (const json& workload : json_["workloads"]) {
    const auto name = workload["name"].get<std::string>();
    if (!workload["scaled_from"].is_null()) {
      texts.push_back(
          fmt::format("{} is scaled down from {} to {} MiB: its tensors are smaller than those of the model", name,
                      mib(workload["scaled_from"]), mib(workload["data_bytes"])));
    }
    if (!machine["l3_bytes"].is_null() && workload["data_bytes"] < machine["l3_bytes"]) {
      texts.push_back(fmt::format("the data of {} fits into the L3 cache of {} MiB: repeated accesses need no memory",
                                  name, mib(machine["l3_bytes"])));
    }
  }
  const auto bypasses_cache = [](const json& result) {
    return result["cache"] == "cold" || result["cache"] == "direct";
  };
  if (std::ranges::any_of(json_["results"], bypasses_cache)) {
    std::ranges::move(cold_read_warnings(machine), std::back_inserter(texts));
  }
  return texts;
}

json Document::finish(unsigned rounds, std::uint64_t seed) {
  json_["rounds"] = rounds;
  json_["seed"] = seed;
  json_["warnings"] = warnings();
  json_["elapsed_ns"] = (std::chrono::steady_clock::now() - begin_) / std::chrono::nanoseconds(1);
  return std::move(json_);
}

}  // namespace tzmark::bench
