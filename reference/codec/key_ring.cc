// Selects and derives the key of a tensor.
#include "codec/key_ring.h"

#include <fmt/format.h>

#include <algorithm>

#include "tzmark/error.h"

namespace tzmark {

const Key& KeyRing::key_for(const CryptBlock& crypt, std::uint64_t file_offset) {
  if (!source_) throw Error(ErrorCode::kCryptKeyMissing, "the file is encrypted, and no key was given", file_offset);
  if (const Key* key = std::get_if<Key>(&*source_)) return *key;
  if (!crypt.key_derivation) {
    throw Error(ErrorCode::kCryptNoKdf, "the tensor's key was not derived from a passphrase", file_offset);
  }
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(derived_, *crypt.key_derivation, [](const auto& entry) { return entry.first; });
  if (known != derived_.end()) return *known->second;
  if (derived_.size() == limits_.derivations_max) {
    throw Error(ErrorCode::kCryptKdfLimit,
                fmt::format("the file derives more than {} different keys", limits_.derivations_max), file_offset);
  }
  auto key =
      std::make_unique<Key>(derive_key(std::get<Passphrase>(*source_), *crypt.key_derivation, limits_, file_offset));
  return *derived_.emplace_back(*crypt.key_derivation, std::move(key)).second;
}

}  // namespace tzmark
