// XSalsa20-Poly1305 of messages, whole or in parts.
//
// Whole messages use libsodium's crypto_secretbox. A message that is larger than a piece is first authenticated as a
// stream and then decrypted in parts, with the same result. All functions are thread-safe.
#pragma once

#include <sodium.h>

#include <array>
#include <cstdint>
#include <span>

#include "tzmark/crypto.h"

namespace tzmark {

static_assert(crypto_secretbox_KEYBYTES == kKeyBytes);
static_assert(crypto_secretbox_NONCEBYTES == kNonceBytes);
static_assert(crypto_secretbox_MACBYTES == kMacBytes);
static_assert(crypto_pwhash_SALTBYTES == kSaltBytes);

using Nonce = std::array<unsigned char, kNonceBytes>;

// The nonce of message i: base + i, little-endian over all 24 bytes.
Nonce message_nonce(std::span<const std::byte, kNonceBytes> base, std::uint64_t i);

// Writes plaintext of the same length, possibly in place. Returns false and writes nothing if the MAC is wrong.
[[nodiscard]] bool open_message(const Key& key, const Nonce& nonce, std::span<const std::byte> mac,
                                std::span<const std::byte> ciphertext, std::span<std::byte> plaintext);
// Writes ciphertext of the same length, possibly in place, and the MAC.
void seal_message(const Key& key, const Nonce& nonce, std::span<const std::byte> plaintext,
                  std::span<std::byte> ciphertext, std::span<std::byte> mac);

// The MAC of a message that comes in parts.
class MessageAuthenticator {
 public:
  MessageAuthenticator(const Key& key, const Nonce& nonce);
  ~MessageAuthenticator();
  MessageAuthenticator(const MessageAuthenticator&) = delete;
  MessageAuthenticator& operator=(const MessageAuthenticator&) = delete;

  void update(std::span<const std::byte> ciphertext);
  [[nodiscard]] bool matches(std::span<const std::byte> mac);

 private:
  crypto_onetimeauth_state state_;
};

// Decrypts a part of a message in place. REQUIRES: offset, the position of the part in the message, is a multiple
// of 64.
void decrypt_part(const Key& key, const Nonce& nonce, std::uint64_t offset, std::span<std::byte> data);

}  // namespace tzmark
