// Rates of the device itself at rising bytes in flight: transfers past the page cache, on all cores, without the codec.
//
// For one thread at a time. Errors: TZE-ENV rules if the storage fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "cli/tune/task.h"
#include "subjects/content.h"
#include "tune/ceiling_verdict.h"
#include "tune/probe.h"

namespace tzmark::bench {

struct DeviceLimits {
  double codec_rate = 0;             // bytes per second; the file is what it writes in half a second
  std::uint64_t file_bytes_max = 0;  // what the storage has room for; one version of the content is written in any case
  std::uint64_t in_flight_bytes_max = 0;  // 0: no limit
  std::chrono::steady_clock::time_point end;
};

// Makes a file, measures points on it until the time is over, two at least, and removes it. No points where no path
// passes the page cache by.
//
// step: called with the bytes in flight (0 while the file is made) before each point and a few times per second; ends
// the measurement by throwing. found: called with each point.
void measure_device_points(Workplace& place, const Probe& probe, const TensorContent& content, TuneTask task,
                           const DeviceLimits& limits, const std::function<void(std::uint64_t)>& step,
                           const std::function<void(const DevicePoint&)>& found);

}  // namespace tzmark::bench
