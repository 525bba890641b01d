// The hashes that a file stores for a tensor, and their verification.
//
// Thread-safety: const calls are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "tzmark/format.h"

namespace tzmark {

using Sha256Digest = std::array<std::byte, 32>;

// Which stored hashes are checked while data is read. MACs of encrypted tensors are always checked.
enum class Verification : std::uint8_t {
  kNone,
  kCrc32,  // fails for a tensor without CRC32
  kAll,    // checks CRC32 and SHA-256, whichever are stored; fails for a tensor without any
};

// The hashes in a tensor header. They cover part of the header, then the plaintext.
class ExpectedHashes {
 public:
  ExpectedHashes() = default;
  // header: the bytes that decoded was decoded from. file_offset: where they begin in the file, for errors.
  ExpectedHashes(Layout layout, std::span<const std::byte> header, const TensorHeader& decoded,
                 std::uint64_t file_offset);

  // The bytes to hash before the plaintext.
  std::span<const std::byte> hashed_header() const { return hashed_header_; }
  // Whether a hash of that type is stored.
  bool wants_crc32() const { return wants_crc32_; }
  bool wants_sha256() const { return wants_sha256_; }

  // Compares computed digests with the stored ones. Throws TZR-HSH-004, 005 or 006. A digest is ignored if no hash of
  // its type is stored or to be verified.
  void check(std::uint32_t crc32, const Sha256Digest& sha256, Verification verify = Verification::kAll) const;

 private:
  struct Stored {
    bool is_sha256;
    Sha256Digest value;  // a CRC32 occupies the first four bytes
    std::uint64_t file_offset;
  };
  std::vector<std::byte> hashed_header_;
  std::vector<Stored> stored_;
  std::uint64_t header_file_offset_ = 0;
  bool wants_crc32_ = false;
  bool wants_sha256_ = false;
};

}  // namespace tzmark
