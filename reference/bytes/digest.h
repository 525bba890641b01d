// The hashes of the file format (CRC32, SHA-256) and of checkpoints (CRC-64).
//
// Thread-safety: an object is for one thread at a time; the free functions are thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace tzmark {

using Sha256Digest = std::array<std::byte, 32>;  // as in tzmark/hashes.h

// CRC32 (IEEE 802.3, as in zlib) of bytes that follow others whose CRC32 is seed.
std::uint32_t crc32(std::uint32_t seed, std::span<const std::byte> bytes) noexcept;

// CRC32 of a || b, given those of a and b and the length of b. Allows pieces to be hashed in parallel.
std::uint32_t crc32_combine(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes) noexcept;

// CRC-64/XZ of bytes that follow others whose CRC-64 is seed; `7z h -scrcCRC64` shows the same number.
std::uint64_t crc64(std::uint64_t seed, std::span<const std::byte> bytes) noexcept;

// CRC-64 of a || b, as above.
std::uint64_t crc64_combine(std::uint64_t a, std::uint64_t b, std::uint64_t b_bytes) noexcept;

// CRC-64 of that many zeros, such as a hole in a file.
std::uint64_t crc64_of_zeros(std::uint64_t bytes) noexcept;

// SHA-256 is sequential: one tensor's digest cannot use more than one core.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // Returns the digest, and starts a new message.
  Sha256Digest finish();
  // Discards the current message, and starts a new one.
  void reset();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

Sha256Digest sha256(std::span<const std::byte> bytes);

std::string to_hex(std::span<const std::byte> bytes);

}  // namespace tzmark
