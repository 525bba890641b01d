// Poly1305 by OpenSSL, the fastest implementation available.
#include "bytes/block_tags.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <memory>

#include "tzmark/error.h"

namespace tzmark {
namespace {

EVP_MAC* poly1305() {
  // Fetched once, since a lookup by name costs more than a short block.
  static EVP_MAC* const algorithm = EVP_MAC_fetch(nullptr, "POLY1305", nullptr);
  if (algorithm == nullptr) throw Error(ErrorCode::kResource, "OpenSSL has no Poly1305");
  return algorithm;
}

}  // namespace

BlockTagger::BlockTagger() {
  if (RAND_bytes(key_.data(), static_cast<int>(key_.size())) != 1) {
    throw Error(ErrorCode::kResource, "the system provides no random bytes");
  }
}

BlockTag BlockTagger::tag(std::span<const std::byte> block) const {
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(EVP_MAC_CTX_new(poly1305()),
                                                                          EVP_MAC_CTX_free);
  BlockTag tag;
  std::size_t length = 0;
  // One key may be used for many blocks, since tags stay secret.
  if (!context || EVP_MAC_init(context.get(), key_.data(), key_.size(), nullptr) != 1 ||
      EVP_MAC_update(context.get(), reinterpret_cast<const unsigned char*>(block.data()), block.size()) != 1 ||
      EVP_MAC_final(context.get(), tag.data(), &length, tag.size()) != 1 || length != tag.size()) {
    throw Error(ErrorCode::kResource, "OpenSSL failed to compute a Poly1305");
  }
  return tag;
}

}  // namespace tzmark
