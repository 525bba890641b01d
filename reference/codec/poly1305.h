// Poly1305 by OpenSSL, whose vector code is about three times as fast as libsodium's; by libsodium if OpenSSL has none,
// as in a build with the FIPS provider only. One key per message. For one thread at a time.
#pragma once

#include <sodium.h>

#include <array>
#include <cstddef>
#include <span>

struct evp_mac_ctx_st;
struct evp_mac_st;
struct ossl_lib_ctx_st;

namespace tzmark {

// Fetches OpenSSL's Poly1305, from its default library context if null. Returns null if it has none. The caller owns
// the result.
evp_mac_st* fetch_poly1305(ossl_lib_ctx_st* library);

// Returns that of this process, fetched at the first call, or null.
evp_mac_st* openssl_poly1305();

class Poly1305 {
 public:
  using Tag = std::array<unsigned char, crypto_onetimeauth_BYTES>;

  // algorithm: what fetch_poly1305 returned; null uses libsodium. Throws Error kResource.
  Poly1305(std::span<const unsigned char, crypto_onetimeauth_KEYBYTES> key, evp_mac_st* algorithm);
  // Wipes everything that depends on the key.
  ~Poly1305();
  Poly1305(const Poly1305&) = delete;
  Poly1305& operator=(const Poly1305&) = delete;

  void update(std::span<const unsigned char> bytes);
  // REQUIRES: not called before.
  Tag finish();

 private:
  evp_mac_ctx_st* context_ = nullptr;  // null: state_
  crypto_onetimeauth_state state_;
  bool finished_ = false;
};

}  // namespace tzmark
