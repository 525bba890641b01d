// Supplies the key of each tensor: the given key, or the one derived from the passphrase with the tensor's parameters.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tzmark/crypto.h"

namespace tzmark {

// Derives a key once per set of parameters, of which a file may have several. Thread-safe.
class KeyRing {
 public:
  KeyRing(std::optional<KeySource> source, KeyDerivationLimits limits) : source_(std::move(source)), limits_(limits) {}

  bool has_key() const { return source_.has_value(); }
  // Throws TZR-CRY-018 without a key, or TZR-CRY-015 or 019. The key is valid as long as the ring.
  const Key& key_for(const CryptBlock& crypt, std::uint64_t file_offset);

 private:
  std::optional<KeySource> source_;
  KeyDerivationLimits limits_;
  std::mutex mutex_;
  std::vector<std::pair<KeyDerivation, std::unique_ptr<Key>>> derived_;
};

}  // namespace tzmark
