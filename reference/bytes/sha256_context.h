// The state of a Sha256 as OpenSSL declares it, for code that compresses blocks into its words itself.
#pragma once

#include <openssl/sha.h>

#include <new>
#include <type_traits>

#include "tzmark/digest.h"

namespace tzmark {

struct Sha256Access {
  static SHA256_CTX& context(Sha256& hash) noexcept {
    static_assert(sizeof(SHA256_CTX) == sizeof(hash.context_) && alignof(SHA256_CTX) <= alignof(Sha256));
    static_assert(std::is_trivially_copyable_v<SHA256_CTX> && SHA256_CBLOCK == 64);
    return *std::launder(reinterpret_cast<SHA256_CTX*>(hash.context_.data()));
  }
};

}  // namespace tzmark
