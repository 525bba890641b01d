// The CRC-64 of checkpoints, and hexadecimal text of digests, next to the two hashes of the format. Thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "tzmark/digest.h"

namespace tzmark {

// CRC-64/XZ of bytes that follow others whose CRC-64 is seed; `7z h -scrcCRC64` shows the same number.
std::uint64_t crc64(std::uint64_t seed, std::span<const std::byte> bytes) noexcept;

// CRC-64 of a || b, as above.
std::uint64_t crc64_combine(std::uint64_t a, std::uint64_t b, std::uint64_t b_bytes) noexcept;

// CRC-64 of so many zeros: of a hole in a file.
std::uint64_t crc64_of_zeros(std::uint64_t bytes) noexcept;

std::string to_hex(std::span<const std::byte> bytes);

}  // namespace tzmark
