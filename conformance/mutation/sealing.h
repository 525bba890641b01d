// Hashes, ciphertext and MACs of data, as a correct writer makes them.
//
// Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "mutation/draft.h"

namespace tzmark::conformance::mutation {

// The bytes of a hash value over the header's part and the plaintext; nothing if the format has no such type.
std::optional<std::string> hash_of(std::uint8_t type, std::string_view hashed_header, model::Bytes plaintext);

// Whether a chunk says that it encrypts the data.
bool has_cipher(const std::vector<DraftChunk>& chunks);

// The chunk that encrypts the data; null if there is none that can.
const DraftChunk* cipher_of(const std::vector<DraftChunk>& chunks);

// How many messages the data is encrypted as, each with a MAC.
std::uint64_t messages_of(const DraftChunk& cipher, std::uint64_t chunk_size, std::uint64_t data_length);

struct Sealed {
  std::vector<std::byte> data;
  std::vector<std::string> macs;
};

// chunk_size and nonce of the file take precedence over those of the chunk.
Sealed seal(const DraftChunk& cipher, std::uint64_t chunk_size, std::string nonce, model::Bytes plaintext,
            const std::array<std::uint8_t, 32>& key);

}  // namespace tzmark::conformance::mutation
