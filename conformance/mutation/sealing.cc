// Hashes, ciphertext and MACs; see sealing.h.
#include "mutation/sealing.h"

#include <openssl/evp.h>
#include <sodium.h>
#include <zlib.h>

#include <algorithm>

#include "mutation/blob.h"

namespace tzmark::conformance::mutation {
namespace {

// With smaller chunks than a MAC, the MACs of a file take more memory than its data.
constexpr std::uint64_t kChunkLeastBytes = crypto_secretbox_MACBYTES;

template <typename Byte>
const unsigned char* raw(const Byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

std::string sha256_of(std::string_view head, model::Bytes data) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::string digest(crypto_hash_sha256_BYTES, '\0');
  EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr);
  EVP_DigestUpdate(context.get(), head.data(), head.size());
  EVP_DigestUpdate(context.get(), data.data(), data.size());
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
  return digest;
}

bool is_cipher(const DraftChunk& chunk) {
  return chunk.type == model::kChunkParallel || chunk.type == model::kChunkSequential;
}

}  // namespace

std::optional<std::string> hash_of(std::uint8_t type, std::string_view hashed_header, model::Bytes plaintext) {
  if (type == model::kHashSha256) return sha256_of(hashed_header, plaintext);
  if (type != model::kHashCrc32) return std::nullopt;
  const auto head = crc32_z(0, raw(hashed_header.data()), hashed_header.size());
  return number_bytes(plaintext.empty() ? head : crc32_z(head, raw(plaintext.data()), plaintext.size()), 4);
}

bool has_cipher(const std::vector<DraftChunk>& chunks) { return std::ranges::any_of(chunks, is_cipher); }

const DraftChunk* cipher_of(const std::vector<DraftChunk>& chunks) {
  const auto found = std::ranges::find_if(chunks, is_cipher);
  return found == chunks.end() || found->raw ? nullptr : &*found;
}

std::uint64_t messages_of(const DraftChunk& cipher, std::uint64_t chunk_size, std::uint64_t data_length) {
  if (cipher.type == model::kChunkSequential) return 1;
  if (chunk_size < kChunkLeastBytes) return 0;
  return data_length / chunk_size + (data_length % chunk_size == 0 ? 0 : 1);
}

Sealed seal(const DraftChunk& cipher, std::uint64_t chunk_size, std::string nonce, model::Bytes plaintext,
            const std::array<std::uint8_t, 32>& key) {
  Sealed sealed;
  sealed.data.assign(plaintext.begin(), plaintext.end());
  const std::uint64_t count = messages_of(cipher, chunk_size, plaintext.size());
  const std::uint64_t step = cipher.type == model::kChunkSequential ? plaintext.size() : chunk_size;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t begin = i * step;
    const std::uint64_t size = std::min<std::uint64_t>(step, plaintext.size() - begin);
    // libsodium needs an address, even of an empty message.
    unsigned char nothing = 0;
    auto* const data = size == 0 ? &nothing : reinterpret_cast<unsigned char*>(sealed.data.data() + begin);
    std::string mac(crypto_secretbox_MACBYTES, '\0');
    crypto_secretbox_detached(data, reinterpret_cast<unsigned char*>(mac.data()), data, size, raw(nonce.data()),
                              key.data());
    sealed.macs.push_back(std::move(mac));
    sodium_increment(reinterpret_cast<unsigned char*>(nonce.data()), nonce.size());
  }
  return sealed;
}

}  // namespace tzmark::conformance::mutation
