// Keys and key derivation, by libsodium.
#include <fmt/format.h>
#include <sodium.h>

#include <cstring>
#include <span>

#include "format/crypt_block.h"
#include "io/stream.h"
#include "tzmark/crypto.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

void wipe(std::string& text) {
  if (!text.empty()) sodium_memzero(text.data(), text.size());
  text.clear();
}

// Key and passphrase files are small; anything longer is the wrong file.
constexpr std::size_t kSecretFileBytesMax = 4096;

std::string read_secret(const std::string& file_name) {
  return with_context(file_name, [&] {
    const Descriptor file = open_stream(file_name);
    // A growing string would leave copies of the secret in freed memory.
    std::string content(kSecretFileBytesMax + 1, '\0');
    const auto bytes = std::as_writable_bytes(std::span(content));
    std::size_t count = 0;
    while (count < bytes.size()) {
      const std::size_t moved = read_stream(file.get(), bytes.subspan(count));
      if (moved == 0) break;
      count += moved;
    }
    if (count > kSecretFileBytesMax) {
      wipe(content);
      throw Error(ErrorCode::kUsage, "too long for a key or a passphrase");
    }
    content.resize(count);
    return content;
  });
}

}  // namespace

Key::Key(std::span<const std::byte, kKeyBytes> bytes) { std::memcpy(bytes_.data(), bytes.data(), kKeyBytes); }
Key::~Key() { sodium_memzero(bytes_.data(), bytes_.size()); }
Key::Key(Key&& other) noexcept : bytes_(other.bytes_) { sodium_memzero(other.bytes_.data(), other.bytes_.size()); }
Key& Key::operator=(Key&& other) noexcept {
  bytes_ = other.bytes_;
  if (this != &other) sodium_memzero(other.bytes_.data(), other.bytes_.size());
  return *this;
}

Passphrase::~Passphrase() { wipe(text_); }
// Moving a short string copies it, so the source is wiped explicitly.
Passphrase::Passphrase(Passphrase&& other) noexcept : text_(other.text_) { wipe(other.text_); }
Passphrase& Passphrase::operator=(Passphrase&& other) noexcept {
  if (this != &other) {
    wipe(text_);
    text_ = other.text_;
    wipe(other.text_);
  }
  return *this;
}

Key key_from_hex(std::string_view hex) {
  Key key;
  std::size_t length = 0;
  const char* end = nullptr;
  if (hex.size() != 2 * kKeyBytes ||
      sodium_hex2bin(key.data(), kKeyBytes, hex.data(), hex.size(), nullptr, &length, &end) != 0 ||
      length != kKeyBytes || end != hex.data() + hex.size()) {
    throw Error(ErrorCode::kUsage, "a key has 64 hex digits");
  }
  return key;
}

Key key_from_file(const std::string& file_name) {
  std::string content = read_secret(file_name);
  try {
    Key key;
    if (content.size() == kKeyBytes) {
      std::memcpy(key.data(), content.data(), kKeyBytes);
    } else {
      const std::size_t begin = std::min(content.find_first_not_of(" \t\r\n"), content.size());
      const std::size_t end = content.find_last_not_of(" \t\r\n") + 1;
      key = key_from_hex(std::string_view(content).substr(begin, end > begin ? end - begin : 0));
    }
    wipe(content);
    return key;
  } catch (const Error&) {
    wipe(content);
    throw Error(ErrorCode::kUsage, fmt::format("{} contains neither 32 raw bytes nor 64 hex digits", file_name));
  }
}

Passphrase passphrase_from_file(const std::string& file_name) {
  std::string content = read_secret(file_name);
  if (content.ends_with('\n')) content.pop_back();
  if (content.ends_with('\r')) content.pop_back();
  // Probably a file whose writing failed. With an empty passphrase, anyone could decrypt.
  if (content.empty()) throw Error(ErrorCode::kUsage, fmt::format("{} contains no passphrase: it is empty", file_name));
  Passphrase passphrase(content);
  wipe(content);
  return passphrase;
}

Key derive_key(const Passphrase& passphrase, const KeyDerivation& parameters, const KeyDerivationLimits& limits,
               std::uint64_t file_offset) {
  if (parameters.opslimit < kOpslimitMin || parameters.memlimit < kMemlimitMin) {
    throw Error(ErrorCode::kCryptKdfMinimum, "", file_offset);
  }
  if (parameters.memlimit > limits.memlimit_max || parameters.opslimit > limits.opslimit_max) {
    throw Error(ErrorCode::kCryptKdfLimit,
                fmt::format("the key derivation asks for opslimit {} and {} bytes of memory; the limits are {} and {}",
                            parameters.opslimit, parameters.memlimit, limits.opslimit_max, limits.memlimit_max),
                file_offset);
  }
  if (sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium failed to initialize");
  Key key;
  if (crypto_pwhash(key.data(), kKeyBytes, passphrase.text().data(), passphrase.text().size(),
                    reinterpret_cast<const unsigned char*>(parameters.salt.data()), parameters.opslimit,
                    static_cast<std::size_t>(parameters.memlimit), crypto_pwhash_ALG_ARGON2ID13) != 0) {
    throw Error(ErrorCode::kResource, fmt::format("no {} bytes of memory for the key derivation", parameters.memlimit),
                file_offset);
  }
  return key;
}

}  // namespace tzmark
