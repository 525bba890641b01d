// The hashes of one tensor, over its hashed header bytes and its plaintext.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "bytes/digest.h"
#include "tzmark/format.h"
#include "tzmark/reader.h"

namespace tzmark {

// What a tensor header says that header and data hash to.
class ExpectedHashes {
 public:
  ExpectedHashes() = default;
  ExpectedHashes(Layout layout, std::span<const std::byte> header, const TensorHeader& decoded,
                 std::uint64_t file_offset);

  std::span<const std::byte> hashed_header() const { return hashed_header_; }
  bool wants_crc32() const { return wants_crc32_; }
  bool wants_sha256() const { return wants_sha256_; }

  // Throws TZR-HSH-004, 005 or 006. A digest is not looked at if no hash of its type is stored or to be verified.
  void check(std::uint32_t crc32, const Sha256Digest& sha256, Verification verify = Verification::kAll) const;

 private:
  struct Stored {
    bool is_sha256;
    Sha256Digest value;  // a CRC32 fills the first four bytes
    std::uint64_t file_offset;
  };
  std::vector<std::byte> hashed_header_;
  std::vector<Stored> stored_;
  std::uint64_t header_file_offset_ = 0;
  bool wants_crc32_ = false;
  bool wants_sha256_ = false;
};

// Hashes a header and then data that comes in order. For one thread at a time.
class TensorDigest {
 public:
  // Forgets what was before.
  void begin(std::span<const std::byte> hashed_header, bool want_crc32, bool want_sha256);
  // crc32_of_data is crc32(0, data), which another thread may have computed; it is not looked at if not wanted.
  void add(std::span<const std::byte> data, std::uint32_t crc32_of_data);
  // The same for data that lies where the CPU does not get at it. REQUIRES: SHA-256 is not wanted.
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
