// crypto_secretbox, and the same construction in parts.
#include "codec/secretbox.h"

#include <algorithm>

#include "bytes/requires.h"

namespace tzmark {
namespace {

constexpr std::size_t kBlockBytes = 64;
// The first half of the key stream's first block is the one-time MAC key; the message starts at the second half.
constexpr std::size_t kMacKeyBytes = crypto_onetimeauth_KEYBYTES;

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

}  // namespace

Nonce message_nonce(std::span<const std::byte, kNonceBytes> base, std::uint64_t i) {
  Nonce nonce;
  std::copy_n(raw(base), kNonceBytes, nonce.begin());
  Nonce step{};
  for (std::size_t k = 0; k < sizeof i; ++k) step[k] = static_cast<unsigned char>(i >> (8 * k));
  sodium_add(nonce.data(), step.data(), nonce.size());
  return nonce;
}

bool open_message(const Key& key, const Nonce& nonce, std::span<const std::byte> mac,
                  std::span<const std::byte> ciphertext, std::span<std::byte> plaintext) {
  return crypto_secretbox_open_detached(raw(plaintext), raw(ciphertext), raw(mac), ciphertext.size(), nonce.data(),
                                        key.data()) == 0;
}

void seal_message(const Key& key, const Nonce& nonce, std::span<const std::byte> plaintext,
                  std::span<std::byte> ciphertext, std::span<std::byte> mac) {
  crypto_secretbox_detached(raw(ciphertext), raw(mac), raw(plaintext), plaintext.size(), nonce.data(), key.data());
}

MessageAuthenticator::MessageAuthenticator(const Key& key, const Nonce& nonce) {
  std::array<unsigned char, kMacKeyBytes> mac_key;
  crypto_stream_xsalsa20(mac_key.data(), mac_key.size(), nonce.data(), key.data());
  crypto_onetimeauth_init(&state_, mac_key.data());
  sodium_memzero(mac_key.data(), mac_key.size());
}

MessageAuthenticator::~MessageAuthenticator() { sodium_memzero(&state_, sizeof state_); }

void MessageAuthenticator::update(std::span<const std::byte> ciphertext) {
  crypto_onetimeauth_update(&state_, raw(ciphertext), ciphertext.size());
}

bool MessageAuthenticator::matches(std::span<const std::byte> mac) {
  std::array<unsigned char, crypto_onetimeauth_BYTES> computed;
  crypto_onetimeauth_final(&state_, computed.data());
  return crypto_verify_16(computed.data(), raw(mac)) == 0;
}

void decrypt_part(const Key& key, const Nonce& nonce, std::uint64_t offset, std::span<std::byte> data) {
  TZMARK_REQUIRES(offset % kBlockBytes == 0);
  // Byte n of the message meets byte n + 32 of the key stream, so a part begins in the middle of a block.
  const std::uint64_t block = offset / kBlockBytes;
  std::array<unsigned char, kBlockBytes> first{};
  const std::size_t head = std::min(data.size(), kBlockBytes - kMacKeyBytes);
  std::copy_n(raw(data), head, first.begin() + kMacKeyBytes);
  crypto_stream_xsalsa20_xor_ic(first.data(), first.data(), first.size(), nonce.data(), block, key.data());
  std::copy_n(first.begin() + kMacKeyBytes, head, raw(data));
  sodium_memzero(first.data(), first.size());
  const std::span<std::byte> rest = data.subspan(head);
  crypto_stream_xsalsa20_xor_ic(raw(rest), raw(rest), rest.size(), nonce.data(), block + 1, key.data());
}

}  // namespace tzmark
