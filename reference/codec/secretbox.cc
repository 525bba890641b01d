// The construction of crypto_secretbox, whole and in parts.
#include "codec/secretbox.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "bytes/requires.h"

namespace tzmark {
namespace {

constexpr std::size_t kBlockBytes = simd::kSalsa20BlockBytes;
// The first half of the key stream's first block is the one-time MAC key; the message starts at the second half.
constexpr std::size_t kMacKeyBytes = crypto_onetimeauth_KEYBYTES;
// Sealing on a Sapphire Rapids, as a multiple of crypto_secretbox's rate: 0.9 at 64 bytes, 0.8 to 1.1 at 128 bytes,
// depending on the kernel, and 1.2 to 1.5 at 256 bytes.
constexpr std::size_t kSodiumBelowBytes = 256;
// Small enough that what was just encrypted is still in the L1 cache when it is authenticated. A Sapphire Rapids, which
// holds a message of 2 MiB in L2, gains nothing from it: whole passes are 4 % faster there.
constexpr std::size_t kStepBytes = std::size_t{16} << 10;

const unsigned char* raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* raw(std::span<std::byte> bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

// Writes in combined with the key stream, 32 bytes at a time. in and out are equal or do not overlap.
void combine(const unsigned char* in, const unsigned char* stream, unsigned char* out, std::size_t bytes) {
  std::size_t at = 0;
  for (; at + 32 <= bytes; at += 32) {
    std::array<std::uint64_t, 4> data;
    std::array<std::uint64_t, 4> key;
    std::memcpy(data.data(), in + at, 32);
    std::memcpy(key.data(), stream + at, 32);
    for (std::size_t i = 0; i < data.size(); ++i) data[i] ^= key[i];
    std::memcpy(out + at, data.data(), 32);
  }
  for (; at < bytes; ++at) out[at] = in[at] ^ stream[at];
}

// The key stream for a message, or for a part of it that begins at a block. Byte n of a message meets byte n + 32 of
// the stream, so the first blocks are computed ahead, as many as a kernel computes at once.
class MessageStream {
 public:
  MessageStream(const SecretboxMethod& method, const Key& key, const Nonce& nonce, std::uint64_t block,
                std::size_t bytes)
      : kernel_(method.kernel), head_bytes_(std::min(bytes, first_.size() - kMacKeyBytes)), next_block_(block) {
    crypto_core_hsalsa20(subkey_.data(), nonce.data(), key.data(), nullptr);
    std::copy_n(nonce.begin() + crypto_core_hsalsa20_INPUTBYTES, nonce_.size(), nonce_.begin());
    const std::size_t blocks = (kMacKeyBytes + head_bytes_ + kBlockBytes - 1) / kBlockBytes;
    const std::span<unsigned char> first = std::span(first_).first(blocks * kBlockBytes);
    apply(first, first);
  }
  ~MessageStream() {
    sodium_memzero(subkey_.data(), subkey_.size());
    sodium_memzero(first_.data(), first_.size());
  }
  MessageStream(const MessageStream&) = delete;
  MessageStream& operator=(const MessageStream&) = delete;

  // REQUIRES: the stream began at block 0.
  std::span<const unsigned char, kMacKeyBytes> mac_key() const { return std::span(first_).first<kMacKeyBytes>(); }

  // Combines the head, the bytes that the first blocks cover.
  std::size_t head_bytes() const { return head_bytes_; }
  void apply_head(const unsigned char* in, unsigned char* out) const {
    combine(in, first_.data() + kMacKeyBytes, out, head_bytes_);
  }

  // Combines the bytes after the head, or after the previous call. REQUIRES: only the last call has a part of a block.
  void apply(std::span<const unsigned char> in, std::span<unsigned char> out) {
    simd::salsa20_xor(kernel_, subkey_, nonce_, next_block_, in, out);
    next_block_ += in.size() / kBlockBytes;
  }

  // Combines a whole message or part.
  void apply_all(std::span<const unsigned char> in, std::span<unsigned char> out) {
    apply_head(in.data(), out.data());
    apply(in.subspan(head_bytes_), out.subspan(head_bytes_));
  }

 private:
  const simd::Salsa20Kernel& kernel_;
  std::array<unsigned char, simd::kSalsa20MaxGroupBytes> first_{};
  std::array<unsigned char, simd::kSalsa20KeyBytes> subkey_;
  std::array<unsigned char, simd::kSalsa20NonceBytes> nonce_;
  std::size_t head_bytes_;
  std::uint64_t next_block_;
};

std::span<const unsigned char> raw_span(std::span<const std::byte> bytes) { return {raw(bytes), bytes.size()}; }
std::span<unsigned char> raw_span(std::span<std::byte> bytes) { return {raw(bytes), bytes.size()}; }

bool tags_match(const Poly1305::Tag& computed, std::span<const std::byte> stored) {
  return crypto_verify_16(computed.data(), raw(stored)) == 0;
}

}  // namespace

Nonce message_nonce(std::span<const std::byte, kNonceBytes> base, std::uint64_t i) {
  Nonce nonce;
  std::copy_n(raw(base), kNonceBytes, nonce.begin());
  Nonce step{};
  for (std::size_t k = 0; k < sizeof i; ++k) step[k] = static_cast<unsigned char>(i >> (8 * k));
  sodium_add(nonce.data(), step.data(), nonce.size());
  return nonce;
}

const SecretboxMethod& secretbox_method() {
  static const SecretboxMethod method = {simd::salsa20_kernel(), openssl_poly1305(), kSodiumBelowBytes};
  return method;
}

std::string_view secretbox_kernel() { return secretbox_method().kernel.name; }

bool open_message(const SecretboxMethod& method, const Key& key, const Nonce& nonce, std::span<const std::byte> mac,
                  std::span<const std::byte> ciphertext, std::span<std::byte> plaintext) {
  if (ciphertext.size() < method.sodium_below_bytes) {
    return crypto_secretbox_open_detached(raw(plaintext), raw(ciphertext), raw(mac), ciphertext.size(), nonce.data(),
                                          key.data()) == 0;
  }
  MessageStream stream(method, key, nonce, 0, ciphertext.size());
  // All of it before the first byte of plaintext.
  Poly1305 poly1305(stream.mac_key(), method.poly1305);
  poly1305.update(raw_span(ciphertext));
  if (!tags_match(poly1305.finish(), mac)) return false;
  stream.apply_all(raw_span(ciphertext), raw_span(plaintext));
  return true;
}

void seal_message(const SecretboxMethod& method, const Key& key, const Nonce& nonce,
                  std::span<const std::byte> plaintext, std::span<std::byte> ciphertext, std::span<std::byte> mac) {
  if (plaintext.size() < method.sodium_below_bytes) {
    crypto_secretbox_detached(raw(ciphertext), raw(mac), raw(plaintext), plaintext.size(), nonce.data(), key.data());
    return;
  }
  MessageStream stream(method, key, nonce, 0, plaintext.size());
  Poly1305 poly1305(stream.mac_key(), method.poly1305);
  const std::span<const unsigned char> in = raw_span(plaintext);
  const std::span<unsigned char> out = raw_span(ciphertext);
  stream.apply_head(in.data(), out.data());
  std::size_t authenticated = 0;
  for (std::size_t at = stream.head_bytes(); authenticated < in.size();) {
    const std::size_t step = std::min(kStepBytes, in.size() - at);
    stream.apply(in.subspan(at, step), out.subspan(at, step));
    at += step;
    poly1305.update(out.subspan(authenticated, at - authenticated));
    authenticated = at;
  }
  const Poly1305::Tag tag = poly1305.finish();
  std::copy_n(tag.begin(), tag.size(), raw(mac));
}

bool open_message(const Key& key, const Nonce& nonce, std::span<const std::byte> mac,
                  std::span<const std::byte> ciphertext, std::span<std::byte> plaintext) {
  return open_message(secretbox_method(), key, nonce, mac, ciphertext, plaintext);
}

void seal_message(const Key& key, const Nonce& nonce, std::span<const std::byte> plaintext,
                  std::span<std::byte> ciphertext, std::span<std::byte> mac) {
  seal_message(secretbox_method(), key, nonce, plaintext, ciphertext, mac);
}

MessageAuthenticator::MessageAuthenticator(const Key& key, const Nonce& nonce, const SecretboxMethod& method)
    : poly1305_(MessageStream(method, key, nonce, 0, 0).mac_key(), method.poly1305) {}

void MessageAuthenticator::update(std::span<const std::byte> ciphertext) { poly1305_.update(raw_span(ciphertext)); }

bool MessageAuthenticator::matches(std::span<const std::byte> mac) { return tags_match(poly1305_.finish(), mac); }

void decrypt_part(const Key& key, const Nonce& nonce, std::uint64_t offset, std::span<std::byte> data,
                  const SecretboxMethod& method) {
  TZMARK_REQUIRES(offset % kBlockBytes == 0);
  MessageStream stream(method, key, nonce, offset / kBlockBytes, data.size());
  stream.apply_all(raw_span(data), raw_span(data));
}

}  // namespace tzmark
