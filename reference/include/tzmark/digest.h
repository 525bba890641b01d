// The two hashes of the format, computed as the codec computes them: for programs that check single tensors, and for
// measuring what hashing costs. A Sha256 is for one thread at a time; the functions are thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct evp_md_ctx_st;

namespace tzmark {

using Sha256Digest = std::array<std::byte, 32>;

// CRC32 (IEEE 802.3, as zlib) of bytes that follow others whose CRC32 is seed; 0 begins.
std::uint32_t crc32(std::uint32_t seed, std::span<const std::byte> bytes) noexcept;

// Combines the CRC32 of a and of b into that of a || b, given the length of b. Lets pieces be hashed in parallel.
std::uint32_t crc32_combine(std::uint32_t a, std::uint32_t b, std::uint64_t b_bytes) noexcept;

// SHA-256 is a chain: one tensor's digest cannot use more than one core, whatever the tensor's size.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  // Ends the message and starts a new one.
  Sha256Digest finish();
  // Forgets what was fed and starts a new message.
  void reset();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const noexcept;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

Sha256Digest sha256(std::span<const std::byte> bytes);

}  // namespace tzmark
