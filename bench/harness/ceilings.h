// Rates of the single steps of reading and writing on this machine. No codec that uses a step can exceed its rate.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace tzmark::bench {

enum class Rung : std::uint8_t {
  kMemcpy,     // copied bytes; each is read once and written once
  kCrc32,      // tzmark/digest.h, as in the codec
  kSha256,     // tzmark/digest.h, as in the codec
  kSecretbox,  // libsodium, as in the codec: messages of 2 MiB encrypted in place
};

// The name in the result document: "memcpy", "crc32", "sha256", "secretbox".
std::string_view rung_name(Rung rung);

// Larger than any cache, as the data of a checkpoint is.
inline constexpr std::size_t kWorkingSetBytes = std::size_t{64} << 20;

// Measures the bytes per second of `threads` threads together. Each has its own working set (in huge pages if
// available), filled before the clock starts. The threads start together and run for about `time`; the result is the
// sum of their rates. A working set that fits into a cache gives the rate for cached data. REQUIRES: threads > 0,
// working_set_bytes > 0. Errors: TZE-ENV-006 if memory or threads are short.
double measure_rate(Rung rung, unsigned threads, std::chrono::nanoseconds time,
                    std::size_t working_set_bytes = kWorkingSetBytes);

}  // namespace tzmark::bench
