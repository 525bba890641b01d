// Names what limits a setting, from rates that were measured next to it.
//
// A pure function of measured rates, in bytes per second. Thread-safe; throws only std::bad_alloc.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/statistics.h"

namespace tzmark::bench {

// Raw transfers past the page cache, one after another without a pause.
struct DevicePoint {
  std::uint64_t in_flight_bytes = 0;
  double rate = 0;

  friend bool operator==(const DevicePoint&, const DevicePoint&) = default;
};

struct CeilingRates {
  bool is_warm = false;       // the file was in the page cache: no device takes part
  std::string io;             // the path of the setting
  double codec = 0;           // at the setting
  std::optional<double> raw;  // raw transfers at the same setting, in the same cache state
  // The rate of the codec over that of raw transfers that ran next to it; codec / raw if absent. Drift of the machine
  // between the samples of one and the other does not change it.
  std::optional<Interval> codec_over_raw;
  std::vector<DevicePoint> device;    // by rising bytes in flight; empty if no path bypasses the page cache
  std::optional<double> memory_copy;  // on as many threads as compute
  std::optional<double> bus;          // copies from pinned memory to a GPU; absent for loads into host memory
  std::optional<double> hashing;      // the same, of the hashes that the codec computes; absent if it computes none
  std::string server;  // what else is known of a server, which is read instead of a device; empty without one
};

struct CeilingVerdict {
  std::string name;  // "device", "bus", "memory copy", "path", "processor", "bytes in flight"
  std::string text;  // one sentence
  double rate = 0;   // of the ceiling
  double share = 0;  // of that rate that the codec reaches; above 1 where short samples end within a burst
};

// What the device moves: the median of the points within 5 % of the fastest one. Nothing without a point.
struct DeviceRate {
  double rate = 0;
  bool is_flat = false;  // more bytes in flight do not raise it, so that it is a limit of the device
};
std::optional<DeviceRate> device_rate_of(const std::vector<DevicePoint>& points);

// Nothing if no rate was measured that could limit the codec.
//
//   device           its rate does not rise with the bytes in flight, and the codec reaches 95 % of it
//   bus              the codec reaches 80 % of the rate at which pinned memory is copied to the GPU, or raw transfers
//                    into host memory are faster than that
//   processor        raw transfers at the same setting are more than 5 % faster than the codec, by the whole interval
//                    of their ratio where there is one
//   memory copy      warm: the codec reaches 80 % of the rate at which the cores copy memory
//   path             the codec is not shown to be slower than raw transfers of its path, which are slower than the
//                    device, or warm
//   bytes in flight  the device still becomes faster with more bytes in flight than were tried
std::optional<CeilingVerdict> judge_ceiling(const CeilingRates& rates);

}  // namespace tzmark::bench
