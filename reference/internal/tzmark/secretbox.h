// XSalsa20-Poly1305 of whole messages as the codec computes it, for measuring what encryption costs. Thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "tzmark/crypto.h"

namespace tzmark {

using Nonce = std::array<unsigned char, kNonceBytes>;

// Writes plaintext of the same length, in place or to memory that does not overlap. Returns false and writes nothing if
// the MAC is wrong.
[[nodiscard]] bool open_message(const Key& key, const Nonce& nonce, std::span<const std::byte> mac,
                                std::span<const std::byte> ciphertext, std::span<std::byte> plaintext);
// Writes ciphertext of the same length, in place or to memory that does not overlap, and the MAC.
void seal_message(const Key& key, const Nonce& nonce, std::span<const std::byte> plaintext,
                  std::span<std::byte> ciphertext, std::span<std::byte> mac);

// Returns the name of the kernel that computes the key stream in this process: avx512, avx2, or none for libsodium's.
// Throws Error kUsage or kUnavailable if TZMARK_SIMD is set and names none of this machine.
std::string_view secretbox_kernel();

}  // namespace tzmark
