// Messages, whole and in parts, must be what libsodium's crypto_secretbox makes of them, with every kernel.
#include "codec/secretbox.h"

#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/provider.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace tzmark {
namespace {

// Every kernel of the machine with both sources of Poly1305 and no message left to libsodium, and the process's own.
std::vector<SecretboxMethod> secretbox_methods() {
  std::vector<SecretboxMethod> methods = {secretbox_method()};
  for (const simd::Salsa20Kernel& kernel : simd::salsa20_kernels()) {
    methods.push_back({kernel, nullptr, 0});
    if (openssl_poly1305() != nullptr) methods.push_back({kernel, openssl_poly1305(), 0});
  }
  return methods;
}

std::string describe(const SecretboxMethod& method) {
  return std::string(method.kernel.name) + (method.poly1305 == nullptr ? ", libsodium's" : ", OpenSSL's") +
         " Poly1305, libsodium below " + std::to_string(method.sodium_below_bytes);
}

// Seals and opens as libsodium alone; `of` says how a method differs, or nothing.
class SecretboxDifference {
 public:
  explicit SecretboxDifference(std::uint64_t seed) : random(seed) {
    for (unsigned char& b : nonce_) b = static_cast<unsigned char>(random());
  }

  std::string of(const SecretboxMethod& method, std::size_t size, std::size_t in_offset = 0,
                 std::size_t out_offset = 0) {
    const std::string where = std::to_string(size) + " bytes: ";
    fill(size);
    const auto plain = std::span<const std::byte>(plain_).first(size);
    sealed_.reserve(1);  // libsodium takes no null pointer, even to nothing
    sealed_.resize(size);
    std::array<std::byte, kMacBytes> mac;
    crypto_secretbox_detached(raw(sealed_.data()), raw(mac.data()), raw(plain.data()), size, nonce_.data(),
                              key_.data());

    std::vector<std::byte> from(size + in_offset + 1);
    std::vector<std::byte> to(size + out_offset + 1);
    const auto in = std::span(from).subspan(in_offset, size);
    const auto out = std::span(to).subspan(out_offset, size);
    std::ranges::copy(plain, in.begin());
    std::array<std::byte, kMacBytes> computed;
    seal_message(method, key_, nonce_, in, out, computed);
    if (!std::ranges::equal(out, sealed_)) return where + "another ciphertext";
    if (computed != mac) return where + "another MAC";
    computed = {};
    seal_message(method, key_, nonce_, in, in, computed);
    if (!std::ranges::equal(in, sealed_)) return where + "another ciphertext in place";
    if (computed != mac) return where + "another MAC in place";

    std::ranges::fill(out, std::byte{0x5a});
    if (!open_message(method, key_, nonce_, mac, in, out)) return where + "does not open";
    if (!std::ranges::equal(out, plain)) return where + "another plaintext";
    if (!open_message(method, key_, nonce_, mac, in, in)) return where + "does not open in place";
    if (!std::ranges::equal(in, plain)) return where + "another plaintext in place";

    // Nothing may be written, neither for a wrong MAC nor for a changed byte at either end.
    std::ranges::copy(sealed_, in.begin());
    mac[random() % mac.size()] ^= std::byte{0x10};
    std::ranges::fill(out, std::byte{0x5a});
    if (open_message(method, key_, nonce_, mac, in, out)) return where + "opens with a wrong MAC";
    if (std::ranges::count(out, std::byte{0x5a}) != static_cast<std::ptrdiff_t>(size)) return where + "wrote plaintext";
    if (open_message(method, key_, nonce_, mac, in, in)) return where + "opens in place with a wrong MAC";
    if (!std::ranges::equal(in, sealed_)) return where + "wrote plaintext in place";
    for (const std::size_t changed : {std::size_t{0}, size - 1}) {
      if (size == 0) break;
      in[changed] ^= std::byte{1};
      if (open_message(method, key_, nonce_, computed, in, out)) return where + "opens after a change";
      if (std::ranges::count(out, std::byte{0x5a}) != static_cast<std::ptrdiff_t>(size))
        return where + "wrote after all";
      in[changed] ^= std::byte{1};
    }
    return {};
  }

  // The same for parts of a message of at least 5,000 bytes.
  std::string of_parts(const SecretboxMethod& method, std::size_t size) {
    fill(size);
    std::vector<std::byte> sealed(size);
    std::array<std::byte, kMacBytes> mac;
    crypto_secretbox_detached(raw(sealed.data()), raw(mac.data()), raw(plain_.data()), size, nonce_.data(),
                              key_.data());
    MessageAuthenticator authenticator(key_, nonce_, method);
    for (std::size_t at = 0; at < size;) {
      const std::size_t length = std::min<std::size_t>(1 + random() % 3000, size - at);
      authenticator.update(std::span(sealed).subspan(at, length));
      at += length;
    }
    if (!authenticator.matches(mac)) return "another MAC in parts";
    for (std::size_t begin = 0; begin < size; begin += 64) {
      const std::size_t length = std::min<std::size_t>(random() % 4000, size - begin);
      std::vector<std::byte> part(sealed.begin() + static_cast<std::ptrdiff_t>(begin),
                                  sealed.begin() + static_cast<std::ptrdiff_t>(begin + length));
      decrypt_part(key_, nonce_, begin, part, method);
      if (!std::equal(part.begin(), part.end(), plain_.begin() + static_cast<std::ptrdiff_t>(begin))) {
        return "another plaintext of the part at " + std::to_string(begin);
      }
    }
    return {};
  }

  std::mt19937_64 random;

 private:
  static unsigned char* raw(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
  static const unsigned char* raw(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
  void fill(std::size_t size) {
    plain_.reserve(1);
    while (plain_.size() < size) plain_.push_back(static_cast<std::byte>(random()));
  }

  Key key_ = key_from_hex(std::string(64, '9'));
  Nonce nonce_{};
  std::vector<std::byte> plain_, sealed_;
};

std::string check_all_message_lengths(const SecretboxMethod& method) {
  SecretboxDifference difference(1);
  for (std::size_t size = 0; size <= 4200; ++size) {
    if (std::string found = difference.of(method, size); !found.empty()) return found;
  }
  return {};
}

std::string check_random_message_lengths(const SecretboxMethod& method) {
  SecretboxDifference difference(2);
  for (const std::size_t limit : {std::size_t{40000}, std::size_t{40000}, std::size_t{500000}, std::size_t{8} << 20}) {
    const std::size_t size = limit / 2 + difference.random() % (limit / 2);
    if (std::string found = difference.of(method, size); !found.empty()) return found;
  }
  return {};
}

std::string check_message_addresses(const SecretboxMethod& method) {
  SecretboxDifference difference(3);
  for (std::size_t offset = 0; offset < 64; ++offset) {
    const std::size_t size = 500 + difference.random() % 20000;
    if (std::string found = difference.of(method, size, offset, difference.random() % 64); !found.empty()) return found;
  }
  return {};
}

std::string check_message_parts(const SecretboxMethod& method) {
  SecretboxDifference difference(4);
  for (const std::size_t size : {5000, 12345, 65536}) {
    if (std::string found = difference.of_parts(method, size); !found.empty()) return found;
  }
  return {};
}

struct SecretboxCheck {
  const char* name;
  std::string (*difference)(const SecretboxMethod&);
};

class SecretboxMethodTest : public ::testing::TestWithParam<SecretboxCheck> {};

TEST_P(SecretboxMethodTest, IsCryptoSecretbox) {
  for (const SecretboxMethod& method : secretbox_methods()) {
    EXPECT_EQ(GetParam().difference(method), "") << describe(method);
  }
}

#if defined(__x86_64__)
struct WrongSecretboxRotation : simd::Salsa20Constants {
  static constexpr int kRotation3 = 14;
};

TEST_P(SecretboxMethodTest, FindsOneWrongConstant) {
  for (const simd::Salsa20Kernel& kernel : simd::salsa20_kernels()) {
    SecretboxMethod method = {kernel, openssl_poly1305(), 0};
    if (kernel.name == "none") continue;
    method.kernel.xor_groups = kernel.name == "avx2" ? simd::salsa20_xor_avx2<WrongSecretboxRotation>
                                                     : simd::salsa20_xor_avx512<WrongSecretboxRotation>;
    EXPECT_NE(GetParam().difference(method), "") << kernel.name;
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(Checks, SecretboxMethodTest,
                         ::testing::Values(SecretboxCheck{"AllLengths", check_all_message_lengths},
                                           SecretboxCheck{"RandomLengths", check_random_message_lengths},
                                           SecretboxCheck{"Addresses", check_message_addresses},
                                           SecretboxCheck{"Parts", check_message_parts}),
                         [](const auto& instance) { return instance.param.name; });

// With the base provider alone, OpenSSL has the algorithms of no MAC, like one that has the FIPS provider only.
TEST(Poly1305Fallback, IsLibsodiumIfOpenSslHasNoPoly1305) {
  const std::unique_ptr<OSSL_LIB_CTX, decltype(&OSSL_LIB_CTX_free)> library(OSSL_LIB_CTX_new(), OSSL_LIB_CTX_free);
  ASSERT_NE(library, nullptr);
  OSSL_PROVIDER* const base = OSSL_PROVIDER_load(library.get(), "base");
  ASSERT_NE(base, nullptr);
  EXPECT_EQ(fetch_poly1305(library.get()), nullptr);
  EXPECT_EQ(ERR_peek_error(), 0U) << "leaves no error to the caller";
  OSSL_PROVIDER_unload(base);

  // CTest runs these tests a second time, with a configuration that loads the base provider alone.
  const bool is_without = std::getenv("TZMARK_OPENSSL_WITHOUT_POLY1305") != nullptr;
  EXPECT_EQ(secretbox_method().poly1305 == nullptr, is_without);
}

class SecretboxTest : public ::testing::TestWithParam<std::size_t> {
 protected:
  SecretboxTest() : plain_(GetParam()), mac_(kMacBytes), key_(key_from_hex(std::string(64, '7'))) {
    std::mt19937_64 random(GetParam());
    for (std::byte& b : plain_) b = static_cast<std::byte>(random());
    for (unsigned char& b : nonce_) b = static_cast<unsigned char>(random());
    sealed_ = plain_;
    seal_message(key_, nonce_, sealed_, sealed_, mac_);
  }
  std::vector<std::byte> plain_, sealed_, mac_;
  Key key_;
  Nonce nonce_{};
};

TEST_P(SecretboxTest, OpensWhatItSealed) {
  std::vector<std::byte> elsewhere(sealed_.size());
  ASSERT_TRUE(open_message(key_, nonce_, mac_, sealed_, elsewhere));
  EXPECT_EQ(elsewhere, plain_);
  ASSERT_TRUE(open_message(key_, nonce_, mac_, sealed_, sealed_));
  EXPECT_EQ(sealed_, plain_) << "in place";
}

TEST_P(SecretboxTest, AWrongMacLeavesTheDataAlone) {
  mac_[3] ^= std::byte{1};
  const auto before = sealed_;
  std::vector<std::byte> elsewhere(sealed_.size());
  EXPECT_FALSE(open_message(key_, nonce_, mac_, sealed_, elsewhere));
  EXPECT_EQ(elsewhere, std::vector<std::byte>(sealed_.size())) << "no plaintext is handed out";
  EXPECT_FALSE(open_message(key_, nonce_, mac_, sealed_, sealed_));
  EXPECT_EQ(sealed_, before);
}

TEST_P(SecretboxTest, AuthenticatesInParts) {
  for (const std::size_t part : {1, 63, 64, 65, 1000}) {
    MessageAuthenticator authenticator(key_, nonce_);
    for (std::size_t at = 0; at < sealed_.size(); at += part) {
      authenticator.update(std::span(sealed_).subspan(at, std::min(part, sealed_.size() - at)));
    }
    EXPECT_TRUE(authenticator.matches(mac_)) << part;
  }
  MessageAuthenticator other(key_, message_nonce(std::as_bytes(std::span(nonce_)).first<kNonceBytes>(), 1));
  other.update(sealed_);
  EXPECT_FALSE(other.matches(mac_));
}

TEST_P(SecretboxTest, DecryptsAnyPartThatBeginsAtABlock) {
  for (std::size_t begin = 0; begin < sealed_.size(); begin += 64) {
    for (const std::size_t length : {1, 31, 32, 33, 64, 200}) {
      const std::size_t size = std::min(length, sealed_.size() - begin);
      std::vector<std::byte> part(sealed_.begin() + static_cast<std::ptrdiff_t>(begin),
                                  sealed_.begin() + static_cast<std::ptrdiff_t>(begin + size));
      decrypt_part(key_, nonce_, begin, part);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), plain_.begin() + static_cast<std::ptrdiff_t>(begin)))
          << begin << " " << length;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SecretboxTest, ::testing::Values(1, 31, 32, 33, 64, 96, 1000, 5000));

TEST(MessageNonce, CountsLittleEndianWithCarry) {
  std::array<std::byte, kNonceBytes> base{};
  base.fill(std::byte{0xff});
  const Nonce wrapped = message_nonce(base, 1);
  EXPECT_EQ(wrapped, Nonce{});
  base = {};
  base[0] = std::byte{0xff};
  Nonce expected{};
  expected[1] = 1;
  EXPECT_EQ(message_nonce(base, 1), expected);
}

}  // namespace
}  // namespace tzmark
