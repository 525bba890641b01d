// The crypt block of a tensor header: how the tensor is encrypted. See the chunk tables in FORMAT.md.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tzmark/format.h"

namespace tzmark {

inline constexpr std::size_t kChunkPrefixBytes = 8 + 2;  // chunk_length, chunk_type
inline constexpr std::size_t kKeyDerivationPayloadBytes = 2 + 8 + 8 + 4 + 2 + kSaltBytes;
inline constexpr std::size_t kParallelFixedBytes = 8 + kNonceBytes + 8;  // chunk_size, nonce, mac_count
inline constexpr std::uint64_t kChunkSizeMin = 1024;
inline constexpr std::uint64_t kChunkSizeStep = 64;
inline constexpr std::uint64_t kMemlimitMin = 8192;
inline constexpr std::uint64_t kOpslimitMin = 1;

// block: the bytes that crypt_length counts.
CryptBlock decode_crypt_block(std::span<const std::byte> block, std::uint64_t file_offset, std::uint64_t data_length);

// Returns the size of what encode_crypt_block appends, including the length field.
std::uint64_t crypt_block_bytes(std::uint64_t data_length, const HeaderPlan& plan);

// Appends the length field and the block, with zeros for the nonce and the MACs.
void encode_crypt_block(std::uint64_t data_length, const HeaderPlan& plan,
                        const std::optional<KeyDerivation>& key_derivation, HeaderSlots& slots,
                        std::vector<std::byte>& out);

}  // namespace tzmark
