// Measurements that the system was too short of threads for: an error, since a slower number would be a wrong one.
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
          fmt::format("{} of the threads to measure with did not start: raise the limit of processes (pids.max, ulimit "
                      "-u), or ask for fewer threads",
                      threads)};
}

// What a result says of transfers that were made in place.
inline std::string in_place_note(std::uint64_t transfers) {
  return fmt::format("{} transfers of io_uring were made in place (pread, pwrite), because the kernel refused them",
                     transfers);
}

// Watches the process while it measures.
class ShortageWatch {
 public:
  // Throws if threads are missing since the watch was made. Returns how many transfers were made in place.
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
