// Poly1305 by EVP_MAC or libsodium.
#include "codec/poly1305.h"

#include <openssl/err.h>
#include <openssl/evp.h>

#include "bytes/requires.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

void check_poly1305(int openssl_result) {
  if (openssl_result != 1) throw Error(ErrorCode::kResource, "OpenSSL failed to compute a Poly1305");
}

}  // namespace

evp_mac_st* fetch_poly1305(ossl_lib_ctx_st* library) {
  // A failure is an answer here; the queue of errors stays the caller's.
  ERR_set_mark();
  EVP_MAC* const algorithm = EVP_MAC_fetch(library, "POLY1305", nullptr);
  ERR_pop_to_mark();
  return algorithm;
}

evp_mac_st* openssl_poly1305() {
  // Fetched once, since a lookup by name costs more than a small message.
  static evp_mac_st* const algorithm = fetch_poly1305(nullptr);
  return algorithm;
}

Poly1305::Poly1305(std::span<const unsigned char, crypto_onetimeauth_KEYBYTES> key, evp_mac_st* algorithm) {
  if (algorithm == nullptr) {
    crypto_onetimeauth_init(&state_, key.data());
    return;
  }
  // A context per message costs 30 ns, and leaves no key in a thread that ends.
  context_ = EVP_MAC_CTX_new(algorithm);
  if (context_ == nullptr) throw Error(ErrorCode::kResource, "no memory for a Poly1305");
  if (EVP_MAC_init(context_, key.data(), key.size(), nullptr) != 1) {
    EVP_MAC_CTX_free(context_);
    throw Error(ErrorCode::kResource, "OpenSSL failed to start a Poly1305");
  }
}

Poly1305::~Poly1305() {
  if (context_ == nullptr) {
    sodium_memzero(&state_, sizeof state_);
    return;
  }
  if (!finished_) {
    // OpenSSL wipes a Poly1305 when it ends, but not when its context is freed.
    Tag tag;
    std::size_t bytes = 0;
    EVP_MAC_final(context_, tag.data(), &bytes, tag.size());
    sodium_memzero(tag.data(), tag.size());
  }
  EVP_MAC_CTX_free(context_);
}

void Poly1305::update(std::span<const unsigned char> bytes) {
  if (context_ == nullptr) {
    crypto_onetimeauth_update(&state_, bytes.data(), bytes.size());
  } else {
    check_poly1305(EVP_MAC_update(context_, bytes.data(), bytes.size()));
  }
}

Poly1305::Tag Poly1305::finish() {
  TZMARK_REQUIRES(!finished_);
  Tag tag;
  if (context_ == nullptr) {
    crypto_onetimeauth_final(&state_, tag.data());
  } else {
    std::size_t bytes = 0;
    check_poly1305(EVP_MAC_final(context_, tag.data(), &bytes, tag.size()));
  }
  finished_ = true;
  return tag;
}

}  // namespace tzmark
