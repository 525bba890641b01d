// Compares the rates in a fixed order; see ceiling_verdict.h.
#include "tune/ceiling_verdict.h"

#include <fmt/format.h>

#include <algorithm>

namespace tzmark::bench {
namespace {

// Rates within 5 % of each other count as equal: repeated runs of a device differ by as much.
constexpr double kReached = 0.95;
// A load also touches new memory, which a copy between touched pages does not; and one to a GPU begins with a read.
constexpr double kCopyReached = 0.8;
// Hashes are computed by the same threads that do everything else.
constexpr double kHashingReached = 0.8;

std::string gigabytes(double rate) { return fmt::format("{:.2f} GB/s", rate / 1e9); }

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

double share_of_raw(const CeilingRates& rates) {
  return rates.codec_over_raw ? rates.codec_over_raw->median : rates.codec / *rates.raw;
}

bool is_slower_than_raw(const CeilingRates& rates) {
  if (!rates.raw) return false;
  if (!rates.codec_over_raw) return share_of_raw(rates) < kReached;
  return rates.codec_over_raw->high && *rates.codec_over_raw->high < kReached;
}

CeilingVerdict device_verdict(const CeilingRates& rates, const DeviceRate& device) {
  CeilingVerdict verdict{"device", "", device.rate, rates.codec / device.rate};
  verdict.text = fmt::format("the device moves {} however many transfers are in flight, and this setting reaches {}",
                             gigabytes(device.rate), percent(verdict.share));
  if (verdict.share > 1 / kReached) {
    verdict.text += "; samples are short enough to end within a burst that does not last";
  }
  return verdict;
}

CeilingVerdict processor_verdict(const CeilingRates& rates) {
  if (rates.hashing && rates.codec >= kHashingReached * *rates.hashing) {
    return {"processor",
            fmt::format("hashing: the cores hash {}, and raw transfers of {} reach {}", gigabytes(*rates.hashing),
                        rates.io, gigabytes(*rates.raw)),
            *rates.hashing, rates.codec / *rates.hashing};
  }
  return {"processor",
          fmt::format("the work of the cores: raw transfers of {} at this setting reach {}", rates.io,
                      gigabytes(*rates.raw)),
          *rates.raw, share_of_raw(rates)};
}

CeilingVerdict copy_verdict(const CeilingRates& rates) {
  const double share = rates.codec / *rates.memory_copy;
  return {"memory copy",
          fmt::format("the cores copy {} from memory to memory, and this setting reaches {}",
                      gigabytes(*rates.memory_copy), percent(share)),
          *rates.memory_copy, share};
}

CeilingVerdict bus_verdict(const CeilingRates& rates) {
  const double share = rates.codec / *rates.bus;
  return {"bus",
          fmt::format("pinned memory is copied to the GPU at {}, and this setting reaches {}", gigabytes(*rates.bus),
                      percent(share)),
          *rates.bus, share};
}

// Raw transfers end in host memory: where they are faster than the bus, no load can keep up with them.
bool is_limited_by_bus(const CeilingRates& rates) {
  return rates.bus && (rates.codec >= kCopyReached * *rates.bus || (rates.raw && *rates.raw >= *rates.bus));
}

std::optional<CeilingVerdict> warm_verdict(const CeilingRates& rates) {
  if (is_limited_by_bus(rates)) return bus_verdict(rates);
  if (rates.memory_copy && rates.codec >= kCopyReached * *rates.memory_copy) return copy_verdict(rates);
  if (is_slower_than_raw(rates)) return processor_verdict(rates);
  if (!rates.raw) return rates.memory_copy ? std::optional(copy_verdict(rates)) : std::nullopt;
  std::string text = fmt::format("{} delivers {} from the page cache into {} memory", rates.io, gigabytes(*rates.raw),
                                 rates.bus ? "reused" : "new");
  if (rates.memory_copy) text += fmt::format("; the cores copy {}", gigabytes(*rates.memory_copy));
  return CeilingVerdict{"path", std::move(text), *rates.raw, share_of_raw(rates)};
}

}  // namespace

std::optional<DeviceRate> device_rate_of(const std::vector<DevicePoint>& points) {
  if (points.empty()) return {};
  const double fastest = std::ranges::max(points, {}, &DevicePoint::rate).rate;
  std::vector<double> plateau;
  for (const DevicePoint& point : points) {
    if (point.rate >= kReached * fastest) plateau.push_back(point.rate);
  }
  std::ranges::sort(plateau);
  const std::size_t n = plateau.size();
  // With the last point alone on the plateau, more in flight might be faster still.
  const bool is_flat = points.size() > 1 && (n > 1 || points.back().rate < kReached * fastest);
  return DeviceRate{(plateau[(n - 1) / 2] + plateau[n / 2]) / 2, is_flat};
}

std::optional<CeilingVerdict> judge_ceiling(const CeilingRates& rates) {
  if (!(rates.codec > 0)) return {};
  if (rates.is_warm) return warm_verdict(rates);
  const std::optional<DeviceRate> device = device_rate_of(rates.device);
  if (device && device->is_flat && rates.codec >= kReached * device->rate) return device_verdict(rates, *device);
  if (is_limited_by_bus(rates)) return bus_verdict(rates);
  if (is_slower_than_raw(rates)) return processor_verdict(rates);
  if (device && !device->is_flat) {
    return CeilingVerdict{"bytes in flight",
                          fmt::format("the device still becomes faster with more bytes in flight: {} at {} MiB, the "
                                      "most that was tried",
                                      gigabytes(rates.device.back().rate), rates.device.back().in_flight_bytes >> 20),
                          rates.device.back().rate, rates.codec / rates.device.back().rate};
  }
  if (!rates.raw) {
    if (!device) return {};
    return CeilingVerdict{"device",
                          fmt::format("the device moves {}, of which this setting reaches {}", gigabytes(device->rate),
                                      percent(rates.codec / device->rate)),
                          device->rate, rates.codec / device->rate};
  }
  std::string text = fmt::format("raw transfers of {} at this setting reach {}", rates.io, gigabytes(*rates.raw));
  if (!rates.server.empty()) {
    text += "; " + rates.server;
  } else {
    text += device ? fmt::format("; the device moves {}", gigabytes(device->rate))
                   : "; no path bypasses the page cache here, so the rate of the device is not known";
  }
  return CeilingVerdict{"path", std::move(text), *rates.raw, share_of_raw(rates)};
}

}  // namespace tzmark::bench
