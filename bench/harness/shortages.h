// Measurements for which the system had too few threads: an error, because the result would be wrong.
//
// Thread-safe. Errors: TZE-ENV-006.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "tzmark/error.h"
#include "tzmark/shortage.h"

namespace tzmark::bench {

inline Error missing_threads(std::uint64_t threads) {
  return {ErrorCode::kResource,
          fmt::format("{} of the threads for the measurement did not start: raise the limit of processes (pids.max, "
                      "ulimit -u), or use fewer threads",
                      threads)};
}

// The note of a result whose transfers were made synchronously.
inline std::string in_place_note(std::uint64_t transfers) {
  return fmt::format("{} transfers of io_uring were made in place (pread, pwrite), because the kernel refused them",
                     transfers);
}

// Watches this process during a measurement.
class ShortageWatch {
 public:
  // Throws if threads have been missing since construction. Returns how many transfers were made in place.
  std::uint64_t finish() const {
    const Shortage now = shortage();
    if (now.threads_missing != before_.threads_missing) {
      throw missing_threads(now.threads_missing - before_.threads_missing);
    }
    return now.transfers_in_place - before_.transfers_in_place;
  }

 private:
  const Shortage before_ = shortage();
};

}  // namespace tzmark::bench
