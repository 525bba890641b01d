// Decoding and encoding of crypt blocks.
#include "format/crypt_block.h"

#include <fmt/format.h>

#include <algorithm>

#include "bytes/cursor.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

constexpr std::uint16_t kChunkKeyDerivation = 1;
constexpr std::uint16_t kChunkParallel = 2;
constexpr std::uint16_t kChunkSequential = 3;
constexpr std::uint16_t kMethodPassphrase = 1;
constexpr std::int32_t kAlgArgon2id13 = 2;

KeyDerivation decode_key_derivation(ByteReader& reader) {
  KeyDerivation result;
  std::uint64_t at = reader.file_position();
  if (const auto method = reader.integer<std::uint16_t>("the key derivation method"); method != kMethodPassphrase) {
    throw Error(ErrorCode::kCryptKdfMethod, fmt::format("key derivation method {} is unknown", method), at);
  }
  at = reader.file_position();
  result.opslimit = reader.integer<std::uint64_t>("opslimit");
  result.memlimit = reader.integer<std::uint64_t>("memlimit");
  if (result.opslimit < kOpslimitMin || result.memlimit < kMemlimitMin) {
    throw Error(ErrorCode::kCryptKdfMinimum,
                fmt::format("opslimit {} and memlimit {} are below the minimum of {} and {}", result.opslimit,
                            result.memlimit, kOpslimitMin, kMemlimitMin),
                at);
  }
  at = reader.file_position();
  if (const auto alg = reader.integer<std::int32_t>("the key derivation algorithm"); alg != kAlgArgon2id13) {
    throw Error(ErrorCode::kCryptKdfAlg, fmt::format("key derivation algorithm {} is not Argon2id v1.3", alg), at);
  }
  at = reader.file_position();
  const auto salt_length = reader.integer<std::uint16_t>("the salt's length");
  const auto salt = reader.take(salt_length, "the salt");
  if (salt_length != kSaltBytes) {
    throw Error(ErrorCode::kCryptKdfSalt, fmt::format("a salt of {} bytes", salt_length), at);
  }
  std::ranges::copy(salt, result.salt.begin());
  return result;
}

Cipher decode_parallel(ByteReader& reader, std::uint64_t data_length) {
  Cipher cipher;
  std::uint64_t at = reader.file_position();
  cipher.message_bytes = reader.integer<std::uint64_t>("chunk_size");
  if (cipher.message_bytes < kChunkSizeMin || cipher.message_bytes % kChunkSizeStep != 0) {
    throw Error(ErrorCode::kCryptChunkSize,
                fmt::format("chunk_size {} is not a multiple of {} of at least {}", cipher.message_bytes,
                            kChunkSizeStep, kChunkSizeMin),
                at);
  }
  std::ranges::copy(reader.take(kNonceBytes, "the nonce"), cipher.nonce.begin());
  at = reader.file_position();
  const auto mac_count = reader.integer<std::uint64_t>("mac_count");
  const std::uint64_t expected = message_count(data_length, cipher.message_bytes);
  if (mac_count != expected) {
    throw Error(ErrorCode::kCryptMacCount,
                fmt::format("mac_count is {}, but {} bytes in chunks of {} have {}", mac_count, data_length,
                            cipher.message_bytes, expected),
                at);
  }
  // mac_count is now bounded by data_length / 1024, so that the product cannot overflow.
  cipher.macs = reader.take(mac_count * kMacBytes, "the list of MACs");
  return cipher;
}

Cipher decode_sequential(ByteReader& reader, std::uint64_t data_length) {
  Cipher cipher;
  cipher.sequential = true;
  cipher.message_bytes = data_length;
  std::ranges::copy(reader.take(kNonceBytes, "the nonce"), cipher.nonce.begin());
  cipher.macs = reader.take(kMacBytes, "the MAC");
  return cipher;
}

}  // namespace

std::uint64_t message_count(std::uint64_t data_length, std::uint64_t message_bytes) {
  return data_length / message_bytes + (data_length % message_bytes != 0 ? 1 : 0);
}

CryptBlock decode_crypt_block(std::span<const std::byte> block, std::uint64_t file_offset, std::uint64_t data_length) {
  CryptBlock result;
  ByteReader reader(block, file_offset, ErrorCode::kCryptChunks, "the crypt block");
  const auto chunk_count = reader.integer<std::uint16_t>("the chunk count");
  if (data_length == 0 && chunk_count != 0) {
    throw Error(ErrorCode::kCryptWithoutData, fmt::format("{} crypt chunks in a tensor without data", chunk_count),
                file_offset);
  }
  for (std::uint16_t i = 0; i < chunk_count; ++i) {
    const std::uint64_t chunk_at = reader.file_position();
    const auto chunk_length = reader.integer<std::uint64_t>("a chunk's length");
    const std::uint64_t body_at = reader.file_position();
    ByteReader chunk(reader.take(chunk_length, "a crypt chunk"), body_at, ErrorCode::kCryptPayload, "its crypt chunk");
    const auto type = chunk.integer<std::uint16_t>("a chunk's type");
    switch (type) {
      case kChunkKeyDerivation:
        if (result.key_derivation) {
          throw Error(ErrorCode::kCryptTwoKdfs, "a second key derivation chunk", chunk_at);
        }
        result.key_derivation = decode_key_derivation(chunk);
        break;
      case kChunkParallel:
      case kChunkSequential:
        if (result.cipher) throw Error(ErrorCode::kCryptTwoCiphers, "a second cipher chunk", chunk_at);
        result.cipher =
            type == kChunkParallel ? decode_parallel(chunk, data_length) : decode_sequential(chunk, data_length);
        break;
      default:
        throw Error(ErrorCode::kCryptChunkType, fmt::format("crypt chunk type {} is unknown", type), body_at);
    }
    if (chunk.remaining() != 0) {
      throw Error(ErrorCode::kCryptPayload, fmt::format("{} bytes too many in a crypt chunk", chunk.remaining()),
                  chunk.file_position());
    }
  }
  if (reader.remaining() != 0) {
    throw Error(ErrorCode::kCryptChunks, fmt::format("{} bytes after the last crypt chunk", reader.remaining()),
                reader.file_position());
  }
  if (data_length != 0 && !result.cipher) {
    throw Error(ErrorCode::kCryptNoCipher, "a tensor with data has no cipher chunk", file_offset);
  }
  return result;
}

std::uint64_t crypt_block_bytes(std::uint64_t data_length, const HeaderPlan& plan) {
  std::uint64_t bytes = 8 + 2;  // crypt_length, chunk count
  if (data_length == 0) return bytes;
  if (plan.has_key_derivation) bytes += kChunkPrefixBytes + kKeyDerivationPayloadBytes;
  return bytes + kChunkPrefixBytes + kParallelFixedBytes + message_count(data_length, plan.chunk_bytes) * kMacBytes;
}

void encode_crypt_block(std::uint64_t data_length, const HeaderPlan& plan,
                        const std::optional<KeyDerivation>& key_derivation, HeaderSlots& slots,
                        std::vector<std::byte>& out) {
  ByteWriter writer(out);
  writer.integer<std::uint64_t>(crypt_block_bytes(data_length, plan) - 8);
  writer.integer(static_cast<std::uint16_t>(data_length == 0 ? 0 : plan.has_key_derivation ? 2 : 1));
  if (data_length == 0) return;
  if (plan.has_key_derivation) {
    writer.integer<std::uint64_t>(2 + kKeyDerivationPayloadBytes);
    writer.integer(kChunkKeyDerivation);
    writer.integer(kMethodPassphrase);
    writer.integer(key_derivation->opslimit);
    writer.integer(key_derivation->memlimit);
    writer.integer(kAlgArgon2id13);
    writer.integer(static_cast<std::uint16_t>(kSaltBytes));
    writer.bytes(key_derivation->salt);
  }
  const std::uint64_t mac_count = message_count(data_length, plan.chunk_bytes);
  writer.integer<std::uint64_t>(2 + kParallelFixedBytes + mac_count * kMacBytes);
  writer.integer(kChunkParallel);
  writer.integer(plan.chunk_bytes);
  slots.nonce_at = writer.position();
  writer.zeros(kNonceBytes);
  writer.integer(mac_count);
  slots.macs_at = writer.position();
  writer.zeros(mac_count * kMacBytes);
}

}  // namespace tzmark
