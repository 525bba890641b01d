// Keys, and where they come from.
//
// Encryption here keeps the values of tensors secret and notices when ciphertext was changed. It does not protect
// names, dtypes, shapes or the hash of the plaintext, and whoever can also edit headers can swap whole tensors. See
// FORMAT.md. Key material is wiped when its owner is destroyed. Keys are values for one owner; they move and do not
// copy.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
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

// 64 hex digits. Throws kUsage.
Key key_from_hex(std::string_view hex);
// A file of 32 raw bytes, or of 64 hex digits with white space around them. Throws kUsage, TZE-ENV-001 or 002.
Key key_from_file(const std::string& file_name);
// The content of a file without one line end at its end, and not empty. Throws kUsage, TZE-ENV-001 or 002.
Passphrase passphrase_from_file(const std::string& file_name);

// What a file may ask of the machine when it says how its key is derived.
struct KeyDerivationLimits {
  std::uint64_t memlimit_max = std::uint64_t{1} << 30;  // bytes
  std::uint64_t opslimit_max = 4;                       // libsodium's SENSITIVE
  std::size_t derivations_max = 8;                      // different ones in one file
};

// Argon2id v1.3. Throws TZR-CRY-014 or 015 before it does any work that the limits forbid.
Key derive_key(const Passphrase& passphrase, const KeyDerivation& parameters, const KeyDerivationLimits& limits,
               std::uint64_t file_offset = 0);

struct EncryptOptions {
  KeySource key;                                   // no empty passphrase
  std::uint64_t chunk_bytes = kDefaultChunkBytes;  // a multiple of 64, at least 1024
  // For passphrases; libsodium's MODERATE, as upstream's default.
  std::uint64_t opslimit = 3;
  std::uint64_t memlimit = 256 << 20;
};

}  // namespace tzmark
