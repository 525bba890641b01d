// Messages in parts must be what crypto_secretbox makes of them whole.
#include "codec/secretbox.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tzmark {
namespace {

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
