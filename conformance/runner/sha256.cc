// The SHA-256 of a file; see sha256.h.
#include "runner/sha256.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "model/text.h"
#include "runner/errors.h"

namespace tzmark::conformance {
namespace {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
struct FreeDigest {
  void operator()(EVP_MD_CTX* digest) const { EVP_MD_CTX_free(digest); }
};

void require_openssl(int ok) {
  if (ok != 1) throw EnvironmentError("OpenSSL cannot compute SHA-256");
}

}  // namespace

std::string sha256_of_file(const std::filesystem::path& path) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rbe"));
  if (!file) throw EnvironmentError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  const std::unique_ptr<EVP_MD_CTX, FreeDigest> digest(EVP_MD_CTX_new());
  if (!digest) throw std::bad_alloc();
  require_openssl(EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr));
  std::array<unsigned char, 65536> block;
  std::size_t got = 0;
  while ((got = std::fread(block.data(), 1, block.size(), file.get())) > 0) {
    require_openssl(EVP_DigestUpdate(digest.get(), block.data(), got));
  }
  if (std::ferror(file.get())) throw EnvironmentError(fmt::format("{}: {}", path.string(), std::strerror(errno)));
  std::array<unsigned char, EVP_MAX_MD_SIZE> value;
  unsigned int size_bytes = 0;
  require_openssl(EVP_DigestFinal_ex(digest.get(), value.data(), &size_bytes));
  return model::hex_digits(std::as_bytes(std::span(value).first(size_bytes)));
}

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
