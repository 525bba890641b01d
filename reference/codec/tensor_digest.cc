// Hashing and checking of tensors.
#include "codec/tensor_digest.h"

#include <fmt/format.h>

#include <algorithm>

#include "bytes/cursor.h"
#include "bytes/requires.h"
#include "tzmark/error.h"

namespace tzmark {

ExpectedHashes::ExpectedHashes(Layout layout, std::span<const std::byte> header, const TensorHeader& decoded,
                               std::uint64_t file_offset)
    : header_file_offset_(file_offset) {
  append_hashed_header(layout, header, decoded, hashed_header_);
  for (const TensorHeader::Hash& hash : decoded.hashes) {
    Stored stored{hash.is_sha256, {}, file_offset + hash.value_at};
    std::ranges::copy(header.subspan(hash.value_at, hash.is_sha256 ? stored.value.size() : 4), stored.value.begin());
    stored_.push_back(stored);
    (hash.is_sha256 ? wants_sha256_ : wants_crc32_) = true;
  }
}

void ExpectedHashes::check(std::uint32_t crc32, const Sha256Digest& sha256, Verification verify) const {
  if (stored_.empty()) throw Error(ErrorCode::kHashNone, "the tensor has no hash to verify", header_file_offset_);
  if (verify == Verification::kCrc32 && !wants_crc32_) {
    throw Error(ErrorCode::kHashNone, "the tensor has no CRC32 to verify", header_file_offset_);
  }
  for (const Stored& stored : stored_) {
    if (stored.is_sha256) {
      if (verify == Verification::kAll && stored.value != sha256) {
        throw Error(ErrorCode::kHashSha256,
                    fmt::format("SHA-256 is {}, stored is {}", to_hex(sha256), to_hex(stored.value)),
                    stored.file_offset);
      }
    } else if (const auto value = load<std::uint32_t>(stored.value, 0); value != crc32) {
      throw Error(ErrorCode::kHashCrc32, fmt::format("CRC32 is {:08x}, stored is {:08x}", crc32, value),
                  stored.file_offset);
    }
  }
}

void TensorDigest::begin(std::span<const std::byte> hashed_header, bool want_crc32, bool want_sha256) {
  want_crc32_ = want_crc32;
  want_sha256_ = want_sha256;
  crc32_ = want_crc32 ? tzmark::crc32(0, hashed_header) : 0;
  if (want_sha256) {
    sha256_.reset();
    sha256_.update(hashed_header);
  }
}

void TensorDigest::add(std::span<const std::byte> data, std::uint32_t crc32_of_data) {
  if (want_crc32_) crc32_ = crc32_combine(crc32_, crc32_of_data, data.size());
  if (want_sha256_) sha256_.update(data);
}

void TensorDigest::add(std::span<const std::byte> data, std::uint32_t crc32_of_data, std::vector<Sha256Part>& later) {
  if (want_crc32_) crc32_ = crc32_combine(crc32_, crc32_of_data, data.size());
  if (want_sha256_) later.push_back({&sha256_, data});
}

void TensorDigest::add_crc32(std::uint32_t crc32_of_data, std::uint64_t data_bytes) {
  TZMARK_REQUIRES(!want_sha256_);
  if (want_crc32_) crc32_ = crc32_combine(crc32_, crc32_of_data, data_bytes);
}

}  // namespace tzmark
