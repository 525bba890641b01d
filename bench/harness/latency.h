// Latency of single transfers: counted in buckets during the run, read as percentiles afterwards.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

namespace tzmark::bench {

// In nanoseconds. A percentile is absent unless at least ten transfers were slower, because it would be the chance of a
// few: p99.9 needs 10,000 transfers.
struct LatencySummary {
  std::uint64_t count = 0;
  std::optional<std::uint64_t> p50, p90, p99, p99_9;
  std::uint64_t max = 0;
};

// {"count", "p50", "p90", "p99", "p99_9", "max"}; absent percentiles are null, and all is null if nothing was counted.
nlohmann::json to_json(const LatencySummary& summary);

// Each power of two has 32 buckets of equal width, so a percentile is at most 1/32 above the true value over the whole
// 64-bit range. Use one object per thread (15 KiB) and merge them; record() does not allocate, throw or lock.
class LatencyHistogram {
 public:
  void record(std::chrono::nanoseconds latency) noexcept {
    const auto ns = static_cast<std::uint64_t>(latency.count() > 0 ? latency.count() : 0);
    ++counts_[bucket_of(ns)];
    ++count_;
    if (ns > max_ns_) max_ns_ = ns;
  }
  // Adds a bucket of another program's histogram, whose values are near ns.
  void record(std::chrono::nanoseconds latency, std::uint64_t count) noexcept;
  // Corrects the maximum of recorded buckets.
  void raise_max(std::uint64_t ns) noexcept { max_ns_ = ns > max_ns_ ? ns : max_ns_; }
  void merge(const LatencyHistogram& other) noexcept;

  std::uint64_t count() const { return count_; }
  std::uint64_t max_ns() const { return max_ns_; }  // exact
  // Returns a latency that at least this part of the transfers does not exceed; never above max_ns().
  // REQUIRES: 0 < part <= 1. 0 if nothing was counted.
  std::uint64_t percentile_ns(double part) const;
  LatencySummary summary() const;

 private:
  static constexpr unsigned kLinearBits = 5;
  static constexpr std::size_t kLinear = std::size_t{1} << kLinearBits;

  static std::size_t bucket_of(std::uint64_t ns) noexcept;
  static std::uint64_t highest_of(std::size_t bucket) noexcept;

  std::array<std::uint64_t, (64 - kLinearBits + 1) * kLinear> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ns_ = 0;
};

}  // namespace tzmark::bench
