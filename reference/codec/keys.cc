// Keys and key derivation, by libsodium.
#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "format/crypt_block.h"
#include "io/stream.h"
#include "tzmark/crypto.h"
#include "tzmark/error.h"

namespace tzmark {
namespace {

// Key and passphrase files are small; anything longer is the wrong file.
constexpr std::size_t kSecretFileBytesMax = 4096;

// The content of a file, without copies elsewhere in memory.
struct SecretText {
  SecretMemory memory;
  std::string_view text;
};

SecretText read_secret(const std::string& file_name) {
  return with_context(file_name, [&] {
    const Descriptor file = open_stream(file_name);
    SecretMemory memory(kSecretFileBytesMax + 1);
    const auto bytes = std::as_writable_bytes(std::span(memory.data(), memory.size()));
    std::size_t count = 0;
    while (count < bytes.size()) {
      const std::size_t moved = read_stream(file.get(), bytes.subspan(count));
      if (moved == 0) break;
      count += moved;
    }
    if (count > kSecretFileBytesMax) throw Error(ErrorCode::kUsage, "too long for a key or a passphrase");
    const std::string_view text(reinterpret_cast<const char*>(memory.data()), count);
    return SecretText{std::move(memory), text};
  });
}

unsigned char* allocate_secret(std::size_t bytes) {
  // It knows the size of a page only then.
  if (sodium_init() < 0) throw Error(ErrorCode::kResource, "libsodium failed to initialize");
  auto* const memory = static_cast<unsigned char*>(sodium_malloc(bytes));
  if (memory == nullptr) throw Error(ErrorCode::kResource, "no memory for a key");
  sodium_memzero(memory, bytes);
  return memory;
}

}  // namespace

SecretMemory::SecretMemory(std::size_t bytes) : data_(allocate_secret(bytes)), size_(bytes) {}
SecretMemory::~SecretMemory() { sodium_free(data_); }
SecretMemory::SecretMemory(SecretMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
SecretMemory& SecretMemory::operator=(SecretMemory&& other) noexcept {
  // Frees what this had at once.
  const SecretMemory before(std::move(*this));
  data_ = std::exchange(other.data_, nullptr);
  size_ = std::exchange(other.size_, 0);
  return *this;
}

Key::Key(std::span<const std::byte, kKeyBytes> bytes) : Key() { std::memcpy(data(), bytes.data(), kKeyBytes); }

Passphrase::Passphrase(std::string_view utf8) : memory_(utf8.size()) { std::ranges::copy(utf8, memory_.data()); }

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
  const SecretText secret = read_secret(file_name);
  const std::string_view content = secret.text;
  if (content.size() == kKeyBytes) return Key(std::as_bytes(std::span(content)).first<kKeyBytes>());
  const std::size_t begin = std::min(content.find_first_not_of(" \t\r\n"), content.size());
  const std::size_t end = content.find_last_not_of(" \t\r\n") + 1;
  try {
    return key_from_hex(content.substr(begin, end > begin ? end - begin : 0));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUsage) throw;
    throw Error(ErrorCode::kUsage, fmt::format("{} contains neither 32 raw bytes nor 64 hex digits", file_name));
  }
}

Passphrase passphrase_from_file(const std::string& file_name) {
  const SecretText secret = read_secret(file_name);
  std::string_view content = secret.text;
  if (content.ends_with('\n')) content.remove_suffix(1);
  if (content.ends_with('\r')) content.remove_suffix(1);
  // Probably a file whose writing failed. With an empty passphrase, anyone could decrypt.
  if (content.empty()) throw Error(ErrorCode::kUsage, fmt::format("{} contains no passphrase: it is empty", file_name));
  return Passphrase(content);
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
