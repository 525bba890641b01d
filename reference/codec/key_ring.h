// Gives the key for each tensor: the raw one, or the one that its parameters derive from the passphrase.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tzmark/crypto.h"

namespace tzmark {

// Thread-safe. A passphrase is stretched once for each set of parameters, of which a file may have a few.
class KeyRing {
 public:
  KeyRing(std::optional<KeySource> source, KeyDerivationLimits limits) : source_(std::move(source)), limits_(limits) {}

  bool has_key() const { return source_.has_value(); }
  // Throws TZR-CRY-018 without a key, and TZR-CRY-015 and 019. The key lives as long as the ring.
  const Key& key_for(const CryptBlock& crypt, std::uint64_t file_offset);

 private:
  std::optional<KeySource> source_;
  KeyDerivationLimits limits_;
  std::mutex mutex_;
  std::vector<std::pair<KeyDerivation, std::unique_ptr<Key>>> derived_;
};

}  // namespace tzmark
