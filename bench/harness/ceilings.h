// How fast this machine does the single steps of reading and writing: the rungs that no codec on top can exceed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

namespace tzmark::bench {

enum class Rung : std::uint8_t {
  kMemcpy,     // bytes copied; each is read once and written once
  kCrc32,      // bytes/digest.h, as the codec
  kSha256,     // bytes/digest.h, as the codec
  kSecretbox,  // libsodium, as the codec: messages of 2 MiB sealed in place, as a writer makes them
};

// As the result document calls it: "memcpy", "crc32", "sha256", "secretbox".
std::string_view rung_name(Rung rung);

// What a checkpoint's bytes meet: memory that no cache holds.
inline constexpr std::size_t kWorkingSetBytes = std::size_t{64} << 20;

// Bytes per second of `threads` threads together, each over working-set memory of its own (huge pages where there are
// any) that is filled before the clock starts. They begin together and go on for about `time`; the rate is what each
// did in its own time, summed. A working set that a cache holds gives the rate for bytes that were just touched.
// REQUIRES: threads > 0, working_set_bytes > 0. Errors: TZE-ENV-006 if there is not enough memory.
double measure_rate(Rung rung, unsigned threads, std::chrono::nanoseconds time,
                    std::size_t working_set_bytes = kWorkingSetBytes);

}  // namespace tzmark::bench
