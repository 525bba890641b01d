// Keys and passphrases, and where they come from.
//
// Encryption keeps the values of tensors secret and detects changed ciphertext. It does not protect names, dtypes,
// shapes or the hash of the plaintext, and an attacker who can also edit headers can swap whole tensors; see FORMAT.md.
//
// Ownership: Key and Passphrase are move-only, and wipe their memory when they are destroyed. For one thread at a time;
// the free functions are thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "tzmark/format.h"

namespace tzmark {

class Key {
 public:
  Key() = default;  // zeros
  explicit Key(std::span<const std::byte, kKeyBytes> bytes);
  ~Key();
  Key(Key&& other) noexcept;
  Key& operator=(Key&& other) noexcept;

  const unsigned char* data() const { return bytes_.data(); }
  unsigned char* data() { return bytes_.data(); }
  std::span<const std::byte, kKeyBytes> bytes() const { return std::as_bytes(std::span(bytes_)); }

 private:
  std::array<unsigned char, kKeyBytes> bytes_{};
};

class Passphrase {
 public:
  explicit Passphrase(std::string utf8) : text_(std::move(utf8)) {}
  ~Passphrase();
  Passphrase(Passphrase&& other) noexcept;
  Passphrase& operator=(Passphrase&& other) noexcept;

  std::string_view text() const { return text_; }

 private:
  std::string text_;
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
