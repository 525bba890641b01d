// Adds up steps; see bounds.h.
#include "cli/bounds.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/ceilings.h"
#include "harness/gpu_ceilings.h"
#include "subjects/ours.h"

namespace tzmark::bench {
namespace {

bool is_path_of(const Measured& m, const RunDescription& of) {
  const RunDescription& d = m.description();
  return d.subject == "raw" && d.detail.empty() && d.operation == of.operation && d.io_actual == of.io_actual &&
         !m.samples.empty() &&
         // A read to the GPU through host memory is compared with a read into reused memory.
         (d.target == of.target || (of.target == Target::kDevice && d.target == Target::kSink)) &&
         d.cache == of.cache && d.workload == of.workload && d.threads == of.threads &&
         d.is_default_block == of.is_default_block && (d.is_default_block || d.block_bytes == of.block_bytes) &&
         d.queue_depth == of.queue_depth;
}

bool is_rung(const Measured& m, std::string_view name, unsigned threads) {
  const RunDescription& d = m.description();
  return d.subject == "ceiling" && d.detail == name && !m.samples.empty() && d.threads == threads;
}

// The parts of a result that were measured by themselves.
struct Parts {
  std::vector<std::pair<std::string, const Measured*>> paths, steps;
  bool overlap = false;  // the device or the server works while the cores do
  unsigned threads = 1;
};

Parts parts_of(const RunDescription& of, const std::vector<Measured>& all) {
  Parts parts;
  const unsigned threads = of.threads.value_or(1);
  const bool sha256 = of.verification == "both" || of.verification == "sha256";
  const HashingRung hashing = hashing_rung(threads, of.bytes, of.largest_tensor_bytes);
  const bool crc32 = of.verification == "both" || of.verification == "crc32";
  for (const Measured& m : all) {
    // A depth that is given and a default one may be the same path.
    if (is_path_of(m, of) && parts.paths.empty()) {
      parts.paths.emplace_back(fmt::format("path-{}/{}", name_of(of.operation), of.io_actual), &m);
    }
    if (of.target == Target::kDevice) {
      // The codec chooses between host and GPU for computing, so only the copy that both need is a bound.
      if (of.operation == FileOperation::kRead && !path_traits(of.io_actual).moves_device_memory &&
          is_rung(m, rung_name(GpuRung::kCopy), 1))
        parts.steps.emplace_back("host-to-device", &m);
      continue;
    }
    if (crc32 && is_rung(m, rung_name(Rung::kCrc32), threads)) parts.steps.emplace_back("crc32", &m);
    if (sha256 && is_rung(m, rung_name(hashing.rung), hashing.threads))
      parts.steps.emplace_back(rung_name(hashing.rung), &m);
    if (of.encrypted && is_rung(m, rung_name(Rung::kSecretboxLanes), threads))
      parts.steps.emplace_back(rung_name(Rung::kSecretboxLanes), &m);
  }
  // Without its path, a read from the cache is at least a copy.
  if (parts.paths.empty() && of.cache == Cache::kWarm && of.target != Target::kDevice) {
    for (const Measured& m : all) {
      if (is_rung(m, rung_name(Rung::kMemcpy), threads)) parts.paths.emplace_back("memcpy", &m);
    }
  }
  parts.threads = threads;
  parts.overlap = of.target == Target::kDevice || path_traits(of.io_actual).bypasses_cache ||
                  of.cache == Cache::kServer || of.cache == Cache::kCold || of.device_beside;
  return parts;
}

double seconds_per_byte(const Measured& m, std::size_t round) {
  return static_cast<double>(m.samples[round].elapsed_ns) / 1e9 / static_cast<double>(m.description().bytes);
}

double median_seconds_per_byte(const Measured& m) { return 1 / median_interval(m.rates()).median; }

// seconds_of: the time per byte of one part.
template <typename SecondsOf>
double limit_of(const Parts& parts, const SecondsOf& seconds_of) {
  double path = 0;
  double steps = 0;
  double slowest = 0;
  for (const auto& [name, m] : parts.paths) path += seconds_of(*m);
  for (const auto& [name, m] : parts.steps) {
    const double seconds = seconds_of(*m);
    // A step that uses some of the cores leaves the others to the rest.
    steps += seconds * m->description().threads.value_or(parts.threads) / parts.threads;
    slowest = std::max(slowest, seconds);
  }
  return std::max(slowest, parts.overlap ? std::max(path, steps) : path + steps);
}

}  // namespace

HashingRung hashing_rung(unsigned threads, std::uint64_t bytes, std::uint64_t largest_tensor_bytes) {
  const std::uint64_t chains = bytes / std::max<std::uint64_t>(1, largest_tensor_bytes);
  if (chains >= 2 * std::uint64_t{threads}) return {Rung::kSha256Lanes, threads};
  return {Rung::kSha256, static_cast<unsigned>(std::clamp<std::uint64_t>(chains, 1, threads))};
}

std::optional<Bound> bound_by(const Measured& measured, const std::vector<Measured>& all) {
  const RunDescription& d = measured.description();
  if (d.subject != "codec" || d.operation == FileOperation::kOpen || measured.samples.empty()) return {};
  const Parts parts = parts_of(d, all);
  Bound bound;
  double longest = 0;
  // In checks each subject counts its own laps, in tzmark bench soak its own operations.
  bool shares_rounds = d.group.empty() && !measured.long_run;
  for (const auto* list : {&parts.paths, &parts.steps}) {
    for (const auto& [name, m] : *list) {
      shares_rounds = shares_rounds && m->samples.size() == measured.samples.size();
      const double seconds = median_seconds_per_byte(*m);
      if (seconds <= longest) continue;
      longest = seconds;
      bound.rung = name;
    }
  }
  if (bound.rung.empty()) return {};
  bound.rate = 1 / limit_of(parts, median_seconds_per_byte);
  bound.share = median_interval(measured.rates()).median / bound.rate;
  if (!shares_rounds) return bound;
  std::vector<double> shares;
  for (std::size_t i = 0; i < measured.samples.size(); ++i) {
    const double limit = limit_of(parts, [i](const Measured& m) { return seconds_per_byte(m, i); });
    shares.push_back(limit / seconds_per_byte(measured, i));
  }
  const Interval interval = median_interval(std::move(shares));
  bound.share = interval.median;
  bound.low = interval.low;
  bound.high = interval.high;
  return bound;
}

}  // namespace tzmark::bench
