// What one command of an adapter may take, in time, memory and disk.
//
// Thread-safety: pure functions and values.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace tzmark::conformance {

// Each counts on top of what the idle adapter takes.
struct Limits {
  std::chrono::nanoseconds elapsed_max{0};
  std::uint64_t memory_max_bytes = 0;
  std::uint64_t disk_max_bytes = 256u << 20;  // on top of the size of the file, or of the data to write
};

// The limits of a file that has none of its own: 10 s and 1 s per 10 MiB, 64 MiB and 16 times the file, for a file of
// nothing but short tensors takes that much as JSON. derives_keys: of
// a passphrase, as the file says: 1 GiB and 60 s more (FORMAT.md, section 11.3).
Limits limits_for_file(std::uint64_t file_bytes, bool derives_keys = false);

// Limits from the command line, which replace those of cases and files.
struct LimitOverrides {
  std::optional<std::chrono::nanoseconds> elapsed_max;
  std::optional<std::uint64_t> memory_max_bytes;

  Limits over(const Limits& own) const;
};

std::chrono::nanoseconds nanoseconds_of(double seconds);
double seconds_of(std::chrono::nanoseconds elapsed);

}  // namespace tzmark::conformance
