// Log-linear buckets; see latency.h.
#include "harness/latency.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/or_null.h"

namespace tzmark::bench {
namespace {

constexpr std::uint64_t kSlowerMin = 10;

}  // namespace

nlohmann::json to_json(const LatencySummary& summary) {
  if (summary.count == 0) return nullptr;
  return {{"count", summary.count},      {"p50", or_null(summary.p50)},     {"p90", or_null(summary.p90)},
          {"p99", or_null(summary.p99)}, {"p99_9", or_null(summary.p99_9)}, {"max", summary.max}};
}

std::size_t LatencyHistogram::bucket_of(std::uint64_t ns) noexcept {
  // One bucket per value below 32; above, the five bits after the leading one select the bucket.
  if (ns < kLinear) return static_cast<std::size_t>(ns);
  const auto octave = static_cast<unsigned>(std::bit_width(ns)) - 1 - kLinearBits;
  return (octave + 1) * kLinear + static_cast<std::size_t>((ns >> octave) - kLinear);
}

std::uint64_t LatencyHistogram::highest_of(std::size_t bucket) noexcept {
  if (bucket < kLinear) return bucket;
  const std::size_t octave = bucket / kLinear - 1;
  const std::uint64_t lowest = (kLinear + bucket % kLinear) << octave;
  return lowest + ((std::uint64_t{1} << octave) - 1);
}

void LatencyHistogram::record(std::chrono::nanoseconds latency, std::uint64_t count) noexcept {
  if (count == 0) return;
  record(latency);
  counts_[bucket_of(static_cast<std::uint64_t>(std::max<std::int64_t>(0, latency.count())))] += count - 1;
  count_ += count - 1;
}

void LatencyHistogram::merge(const LatencyHistogram& other) noexcept {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

std::uint64_t LatencyHistogram::percentile_ns(double part) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= std::max<std::uint64_t>(1, wanted)) return std::min(max_ns_, highest_of(i));
  }
  return max_ns_;
}

LatencySummary LatencyHistogram::summary() const {
  // One in `one_in` transfers is slower.
  const auto percentile = [&](std::uint64_t one_in) -> std::optional<std::uint64_t> {
    if (count_ / one_in < kSlowerMin) return {};
    return percentile_ns(1 - 1 / static_cast<double>(one_in));
  };
  return {count_, percentile(2), percentile(10), percentile(100), percentile(1000), max_ns_};
}

}  // namespace tzmark::bench
