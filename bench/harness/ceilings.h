// Rates of the single steps of reading and writing on this machine. No codec that uses a step can exceed its rate.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "harness/cgroup.h"
#include "tzmark/memory.h"

namespace tzmark::bench {

enum class Rung : std::uint8_t {
  kMemcpy,          // copied bytes; each is read once and written once
  kCrc32,           // tzmark/digest.h, as in the codec
  kSha256,          // tzmark/digest.h: one message a thread
  kSha256Lanes,     // tzmark/digest.h, as in the codec: as many messages side by side as are best
  kSecretbox,       // libsodium: messages of 2 MiB encrypted in place
  kSecretboxLanes,  // tzmark/secretbox.h, as in the codec: the same messages
};
inline constexpr Rung kRungs[] = {Rung::kMemcpy,      Rung::kCrc32,     Rung::kSha256,
                                  Rung::kSha256Lanes, Rung::kSecretbox, Rung::kSecretboxLanes};

// The name in the result document: "memcpy", "crc32", "sha256", "sha256-lanes", "secretbox", "secretbox-lanes".
std::string_view rung_name(Rung rung);

// Larger than any cache, as the data of a checkpoint is.
inline constexpr std::size_t kWorkingSetBytes = std::size_t{64} << 20;
// The same, or less where all threads would take more than an eighth of the memory that a cgroup allows; 2 MiB at
// least.
std::size_t working_set_bytes(unsigned threads, const CgroupLimits& limits);

// The rates of threads that work together, each on a working set of its own (in huge pages if available), which all
// rungs share and which stays, so that a measurement costs little more than the time it is given. For one thread at a
// time. Errors: TZE-ENV-006 if memory or threads are short.
class Ladder {
 public:
  // With the working set of this process's limits. REQUIRES: threads > 0.
  explicit Ladder(unsigned threads) : Ladder(threads, working_set_bytes(threads, cgroup_limits())) {}
  // A working set that fits into a cache gives the rate for cached data. REQUIRES: threads > 0, set_bytes > 1.
  Ladder(unsigned threads, std::size_t set_bytes);

  unsigned threads() const { return static_cast<unsigned>(working_sets_.size()); }
  // Returns bytes per second: the sum over the threads, which start together and run for about `time`.
  double measure(Rung rung, std::chrono::nanoseconds time);

 private:
  std::vector<HostMemory> working_sets_;
  bool is_filled_ = false;
};

}  // namespace tzmark::bench
