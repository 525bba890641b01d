// The two hashes of the format, computed as the codec computes them: for programs that check single tensors, and for
// measuring what hashing costs. A Sha256 is for one thread at a time; the functions are thread-safe.
//
// The environment variable TZMARK_SIMD forces a kernel for update_side_by_side: none, avx2, avx512, sha-ni, or sha2 of
// ARMv8. Without it, the first use measures for a fraction of a millisecond which kernel is fastest for how many
// messages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tzmark {

using Sha256Digest = std::array<std::byte, 32>;

// CRC32 (IEEE 802.3, as zlib) of bytes that follow others whose CRC32 is seed; 0 begins.
std::uint32_t crc32(std::uint32_t seed, std::span<const std::byte> bytes) noexcept;

// Combines the CRC32 of a and of b into that of a || b, given the length of b. Lets pieces be hashed in parallel.
std::uint32_t crc32_combine(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes) noexcept;

// SHA-256 is a chain: one tensor's digest cannot use more than one core, whatever the tensor's size. A copy continues
// the message on its own.
class Sha256 {
 public:
  Sha256() noexcept;

  void update(std::span<const std::byte> bytes) noexcept;
  // Ends the message and starts a new one.
  Sha256Digest finish() noexcept;
  // Forgets what was fed and starts a new message.
  void reset() noexcept;

 private:
  friend struct Sha256Access;
  // OpenSSL's SHA256_CTX.
  alignas(8) std::array<std::byte, 112> context_;
};

Sha256Digest sha256(std::span<const std::byte> bytes) noexcept;

struct Sha256Part {
  Sha256* hash;
  std::span<const std::byte> bytes;
};

// Feeds each message its next bytes, several side by side on one core; as if update() were called on each. Allocates
// nothing for up to 64 parts. Throws Error kUsage if TZMARK_SIMD names no kernel, kUnavailable if the machine lacks it.
// REQUIRES: each hash occurs at most once.
void update_side_by_side(std::span<const Sha256Part> parts);

// Names the kernel that update_side_by_side uses for many messages: "avx512", "avx2", "sha-ni", "sha2", or "none" if
// OpenSSL hashes one after another. Throws as update_side_by_side does.
std::string_view sha256_kernel();

// Checks TZMARK_SIMD, and measures nothing: for programs that report a wrong value before they do any work. Throws as
// above.
void require_sha256_kernel();

// Returns the kernels of this machine, of which "none" is the first.
std::vector<std::string_view> sha256_kernels();

// The same by the kernel of that name, for measuring one against another. Throws as if TZMARK_SIMD named it.
void update_side_by_side(std::span<const Sha256Part> parts, std::string_view kernel);

// Returns how many messages at once reach the highest rate of one core; 1 if the kernel is "none". Throws as above.
unsigned sha256_lanes();
// Returns 4 if so few messages at once reach 0.7 of that rate; otherwise, or if it is less, or if the kernel is forced,
// the same number as above. Throws as above.
unsigned sha256_few_lanes();

}  // namespace tzmark
