// SHA-256; see sha256.h.
#include "runner/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "model/text.h"
#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

void require_openssl(int ok) {
  if (ok != 1) throw EnvironmentError("OpenSSL cannot compute SHA-256");
}

}  // namespace

std::string sha256_of(std::span<const std::byte> bytes) {
  const std::string digest = sha256_digest(model::text_of(bytes));
  return model::hex_digits(std::as_bytes(std::span(digest)));
}

std::string sha256_digest(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> value;
  unsigned int size_bytes = 0;
  require_openssl(EVP_Digest(text.data(), text.size(), value.data(), &size_bytes, EVP_sha256(), nullptr));
  return std::string(reinterpret_cast<const char*>(value.data()), size_bytes);
}

}  // namespace tzmark::conformance
