// XSalsa20-Poly1305 of messages, whole or in parts.
//
// The results are those of libsodium's crypto_secretbox; XSalsa20 is computed by simd/salsa20.h and Poly1305 by
// OpenSSL, but for short messages. A message that is larger than a piece is first authenticated as a stream and then
// decrypted in parts, with the same result. All functions are thread-safe.
#pragma once

#include <sodium.h>

#include <cstdint>
#include <span>

#include "codec/poly1305.h"
#include "simd/salsa20.h"
#include "tzmark/crypto.h"
#include "tzmark/secretbox.h"

namespace tzmark {

static_assert(crypto_secretbox_KEYBYTES == kKeyBytes);
static_assert(crypto_secretbox_NONCEBYTES == kNonceBytes);
static_assert(crypto_secretbox_MACBYTES == kMacBytes);
static_assert(crypto_pwhash_SALTBYTES == kSaltBytes);

// The nonce of message i: base + i, little-endian over all 24 bytes.
Nonce message_nonce(std::span<const std::byte, kNonceBytes> base, std::uint64_t i);

// What computes messages.
struct SecretboxMethod {
  simd::Salsa20Kernel kernel;
  evp_mac_st* poly1305 = nullptr;      // null: libsodium's
  std::size_t sodium_below_bytes = 0;  // crypto_secretbox computes shorter messages
};

// Returns that of this process, chosen at the first call. Throws as simd::salsa20_kernel.
const SecretboxMethod& secretbox_method();

// open_message and seal_message by another method.
[[nodiscard]] bool open_message(const SecretboxMethod& method, const Key& key, const Nonce& nonce,
                                std::span<const std::byte> mac, std::span<const std::byte> ciphertext,
                                std::span<std::byte> plaintext);
void seal_message(const SecretboxMethod& method, const Key& key, const Nonce& nonce,
                  std::span<const std::byte> plaintext, std::span<std::byte> ciphertext, std::span<std::byte> mac);

// The MAC of a message that comes in parts.
class MessageAuthenticator {
 public:
  MessageAuthenticator(const Key& key, const Nonce& nonce, const SecretboxMethod& method = secretbox_method());

  void update(std::span<const std::byte> ciphertext);
  // Ends the message.
  [[nodiscard]] bool matches(std::span<const std::byte> mac);

 private:
  Poly1305 poly1305_;
};

// Decrypts a part of a message in place. REQUIRES: offset, the position of the part in the message, is a multiple
// of 64.
void decrypt_part(const Key& key, const Nonce& nonce, std::uint64_t offset, std::span<std::byte> data,
                  const SecretboxMethod& method = secretbox_method());

}  // namespace tzmark
