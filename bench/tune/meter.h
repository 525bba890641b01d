// The storage as the search sees it: something that can be sampled at a setting.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "harness/disturbance.h"
#include "tune/setting.h"
#include "tzmark/error.h"

namespace tzmark::bench {

// One measurement of one setting.
struct TuneSample {
  double seconds_per_byte = 0;                      // finite, and more than 0
  std::optional<double> cpu_seconds_per_byte = {};  // of all threads of the process
  std::optional<std::uint64_t> peak_memory_bytes = {};
  Disturbance disturbance = {};
};

// For one thread at a time.
class Meter {
 public:
  virtual ~Meter() = default;
  Meter(const Meter&) = delete;
  Meter& operator=(const Meter&) = delete;

  // Moves the bytes of the workload once at this setting. Throws tzmark::Error: kUnavailable for a setting that this
  // machine refuses, TZE-ENV rules if the storage fails (full, read-only), which end the search.
  virtual TuneSample sample(const Setting& setting) = 0;
  // What a sample costs in time, preparations included, by those taken so far; the search plans with it.
  virtual std::chrono::nanoseconds cost() const = 0;
  // Moves to new files, so that a confirmation does not repeat the luck of where the old ones lie.
  virtual void renew() = 0;

 protected:
  Meter() = default;
};

// Runs a step at a setting. One that takes more threads or memory than the system gives is refused as kUnavailable, so
// that the other settings go on.
template <typename Step>
void at_setting(const Step& step) {
  try {
    step();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kResource) throw;
    throw Error(ErrorCode::kUnavailable, error.message());
  }
}

}  // namespace tzmark::bench
