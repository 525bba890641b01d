// Keys and passphrases, and where they come from.
//
// Encryption keeps the values of tensors secret and detects changed ciphertext. It does not protect names, dtypes,
// shapes or the hash of the plaintext, and an attacker who can also edit headers can swap whole tensors; see FORMAT.md.
//
// Ownership: Key and Passphrase are move-only, and own memory that is wiped when they are destroyed; one that was moved
// from has none. For one thread at a time; the free functions are thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tzmark/format.h"

namespace tzmark {

// Memory of a secret: wiped when it is freed, left out of core dumps, not swapped out as far as RLIMIT_MEMLOCK permits,
// and between pages that nothing can read. Move-only; one that was moved from is empty.
class SecretMemory {
 public:
  // Zeros. Throws TZE-ENV-006.
  explicit SecretMemory(std::size_t bytes);
  ~SecretMemory();
  SecretMemory(SecretMemory&& other) noexcept;
  SecretMemory& operator=(SecretMemory&& other) noexcept;

  unsigned char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  unsigned char* data_;
  std::size_t size_;
};

class Key {
 public:
  Key() : memory_(kKeyBytes) {}  // zeros
  explicit Key(std::span<const std::byte, kKeyBytes> bytes);

  const unsigned char* data() const { return memory_.data(); }
  unsigned char* data() { return memory_.data(); }
  std::span<const std::byte, kKeyBytes> bytes() const {
    return std::as_bytes(std::span<const unsigned char, kKeyBytes>(memory_.data(), kKeyBytes));
  }

 private:
  SecretMemory memory_;
};

class Passphrase {
 public:
  explicit Passphrase(std::string_view utf8);

  std::string_view text() const { return {reinterpret_cast<const char*>(memory_.data()), memory_.size()}; }

 private:
  SecretMemory memory_;
};

using KeySource = std::variant<Key, Passphrase>;

// Parses 64 hex digits. Throws kUsage.
Key key_from_hex(std::string_view hex);
// Reads a file of 32 raw bytes, or of 64 hex digits surrounded by white space. Throws kUsage, TZE-ENV-001 or 002.
Key key_from_file(const std::string& file_name);
// Reads a file, and drops one line end at its end. Throws kUsage if nothing is left, TZE-ENV-001 or 002.
Passphrase passphrase_from_file(const std::string& file_name);

// The most that a reader does to derive the keys that a file asks for.
struct KeyDerivationLimits {
  std::uint64_t memlimit_max = std::uint64_t{1} << 30;  // bytes
  std::uint64_t opslimit_max = 4;                       // libsodium's SENSITIVE
  std::size_t derivations_max = 8;                      // different keys per file
};

// Derives a key by Argon2id v1.3. Throws TZR-CRY-014 or 015, before doing any work, if the parameters are outside the
// limits; TZE-ENV-006 if there is not enough memory.
Key derive_key(const Passphrase& passphrase, const KeyDerivation& parameters, const KeyDerivationLimits& limits,
               std::uint64_t file_offset = 0);

struct EncryptOptions {
  KeySource key;                                   // a passphrase must not be empty
  std::uint64_t chunk_bytes = kDefaultChunkBytes;  // a multiple of 64, at least 1024
  // For passphrases: libsodium's MODERATE, which is also upstream's default.
  std::uint64_t opslimit = 3;
  std::uint64_t memlimit = 256 << 20;
};

}  // namespace tzmark
