// Computes the hashes of one tensor, over its hashed header bytes and its plaintext.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "bytes/digest.h"
#include "tzmark/hashes.h"

namespace tzmark {

// Hashes a header, then data in order. For one thread at a time.
class TensorDigest {
 public:
  // Starts anew.
  void begin(std::span<const std::byte> hashed_header, bool want_crc32, bool want_sha256);
  // crc32_of_data is crc32(0, data), which another thread may have computed; ignored if CRC32 is not wanted.
  void add(std::span<const std::byte> data, std::uint32_t crc32_of_data);
  // Adds as above, but only notes what SHA-256 has yet to be fed, for update_side_by_side.
  void add(std::span<const std::byte> data, std::uint32_t crc32_of_data, std::vector<Sha256Part>& later);
  // Adds data that the CPU cannot access. REQUIRES: SHA-256 is not wanted.
  void add_crc32(std::uint32_t crc32_of_data, std::uint64_t data_bytes);
  bool wants_sha256() const { return want_sha256_; }
  std::uint32_t crc32() const { return crc32_; }
  Sha256Digest finish_sha256() { return want_sha256_ ? sha256_.finish() : Sha256Digest{}; }

 private:
  bool want_crc32_ = false;
  bool want_sha256_ = false;
  std::uint32_t crc32_ = 0;
  Sha256 sha256_;
};

}  // namespace tzmark
