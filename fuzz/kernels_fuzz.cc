// Any bytes as messages: every kernel of this machine computes what OpenSSL and libsodium do.
#include <openssl/sha.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "codec/secretbox.h"
#include "expect.h"
#include "simd/salsa20.h"
#include "simd/sha256.h"

namespace {

using namespace tzmark;

void check_salsa20(std::span<const unsigned char> message) {
  std::array<unsigned char, simd::kSalsa20KeyBytes> key{};
  std::array<unsigned char, simd::kSalsa20NonceBytes> nonce{};
  std::copy_n(message.begin(), std::min(message.size(), key.size()), key.begin());
  const std::uint64_t block = message.empty() ? 0 : message.back();
  std::vector<unsigned char> expected(message.size()), found(message.size());
  expected.reserve(1);
  found.reserve(1);
  crypto_stream_salsa20_xor_ic(expected.data(), message.data(), message.size(), nonce.data(), block, key.data());
  for (const simd::Salsa20Kernel& kernel : simd::salsa20_kernels()) {
    simd::salsa20_xor(kernel, key, nonce, block, message, found);
    fuzz::expect(found == expected, kernel.name);
  }
}

// The message in parts of several lengths, each hashed in turns with the others.
void check_sha256(std::span<const std::byte> message) {
  std::vector<std::span<const std::byte>> messages;
  for (std::size_t at = 0, length = 1; at < message.size() && messages.size() < 40;
       at += length, length += length + 1) {
    length = std::min(length, message.size() - at);
    messages.push_back(message.subspan(at, length));
  }
  messages.emplace_back();
  std::vector<simd::Sha256Plan> plans = {simd::sha256_plan()};
  const auto kernels = simd::sha256_kernels();
  for (std::size_t i = 1; i < kernels.size(); ++i) {
    plans.push_back(simd::Sha256Plan::forced(kernels.front(), kernels.subspan(i, 1)));
  }
  for (const simd::Sha256Plan& plan : plans) {
    std::vector<Sha256> hashes(messages.size());
    for (const bool second : {false, true}) {
      std::vector<Sha256Part> parts;
      for (std::size_t i = 0; i < messages.size(); ++i) {
        const std::size_t half = messages[i].size() / 2;
        parts.push_back({&hashes[i], second ? messages[i].subspan(half) : messages[i].first(half)});
      }
      simd::update_side_by_side(plan, parts);
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      std::array<unsigned char, SHA256_DIGEST_LENGTH> expected{};
      SHA256(reinterpret_cast<const unsigned char*>(messages[i].data()), messages[i].size(), expected.data());
      const auto found = hashes[i].finish();
      fuzz::expect(std::memcmp(found.data(), expected.data(), expected.size()) == 0, plan.name());
    }
  }
}

void check_secretbox(std::span<const std::byte> message) {
  std::array<std::byte, kKeyBytes> key_bytes{};
  Nonce nonce{};
  std::copy_n(message.begin(), std::min(message.size(), key_bytes.size()), key_bytes.begin());
  std::vector<std::byte> sealed(message.size() + kMacBytes), again(message.size()), opened(message.size());
  again.reserve(1);
  opened.reserve(1);
  crypto_secretbox_easy(reinterpret_cast<unsigned char*>(sealed.data()),
                        reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                        reinterpret_cast<const unsigned char*>(nonce.data()),
                        reinterpret_cast<const unsigned char*>(key_bytes.data()));
  const Key key{key_bytes};
  std::array<std::byte, kMacBytes> mac{};
  seal_message(secretbox_method(), key, nonce, message, again, mac);
  fuzz::expect(std::ranges::equal(std::span(sealed).subspan(kMacBytes), again),
               "a message is encrypted as by libsodium");
  fuzz::expect(std::ranges::equal(std::span(sealed).first(kMacBytes), mac), "a message has the MAC of libsodium");
  fuzz::expect(open_message(secretbox_method(), key, nonce, mac, again, opened), "a sealed message opens");
  fuzz::expect(std::ranges::equal(opened, message), "an opened message is what was sealed");
  mac[0] ^= std::byte{1};
  fuzz::expect(!open_message(secretbox_method(), key, nonce, mac, again, opened), "another MAC opens nothing");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // libsodium takes no null pointer, which an empty message may have.
  std::vector<unsigned char> message(data, data + size);
  message.push_back(0);
  check_salsa20(std::span(message).first(size));
  check_sha256(std::as_bytes(std::span(message).first(size)));
  check_secretbox(std::as_bytes(std::span(message).first(size)));
  return 0;
}
