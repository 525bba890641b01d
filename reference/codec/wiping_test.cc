// OpenSSL's memory must hold no one-time key of Poly1305 when it is freed. This program is OpenSSL's allocator.
#include <gtest/gtest.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "codec/secretbox.h"

namespace tzmark {
namespace {

// In front of each allocation: its size, in as many bytes as keep the alignment.
constexpr std::size_t kSizeBytes = 16;

// The half of the one-time key that OpenSSL stores as it is, next to what it computes from the other.
std::array<unsigned char, 16> needle{};
bool is_searching = false;
int leaks = 0;

void* allocate(std::size_t bytes, const char*, int) {
  auto* const memory = static_cast<unsigned char*>(std::malloc(kSizeBytes + bytes));
  if (memory == nullptr) return nullptr;
  std::memcpy(memory, &bytes, sizeof bytes);
  return memory + kSizeBytes;
}

void release(void* memory, const char*, int) {
  if (memory == nullptr) return;
  auto* const bytes = static_cast<unsigned char*>(memory);
  std::size_t size = 0;
  std::memcpy(&size, bytes - kSizeBytes, sizeof size);
  if (is_searching && std::search(bytes, bytes + size, needle.begin(), needle.end()) != bytes + size) ++leaks;
  std::free(bytes - kSizeBytes);
}

void* resize(void* memory, std::size_t bytes, const char* file, int line) {
  void* const larger = bytes == 0 ? nullptr : allocate(bytes, file, line);
  if (memory != nullptr && larger != nullptr) {
    std::size_t size = 0;
    std::memcpy(&size, static_cast<unsigned char*>(memory) - kSizeBytes, sizeof size);
    std::memcpy(larger, memory, std::min(size, bytes));
  }
  if (larger != nullptr || bytes == 0) release(memory, file, line);
  return larger;
}

// Before OpenSSL allocates anything.
const bool is_allocator = CRYPTO_set_mem_functions(allocate, resize, release) == 1;

class WipingTest : public ::testing::Test {
 protected:
  WipingTest() {
    crypto_stream_xsalsa20(mac_key_.data(), mac_key_.size(), nonce_.data(), key_.data());
    std::copy(mac_key_.begin() + 16, mac_key_.end(), needle.begin());
    leaks = 0;
    is_searching = true;
  }
  ~WipingTest() override { is_searching = false; }

  Key key_ = key_from_hex(std::string(64, '3'));
  Nonce nonce_{1, 2, 3};
  std::array<unsigned char, crypto_onetimeauth_KEYBYTES> mac_key_;
  std::vector<std::byte> message_ = std::vector<std::byte>(100000);
  std::vector<std::byte> mac_ = std::vector<std::byte>(kMacBytes);
};

TEST_F(WipingTest, TheSearchFindsAKeyThatIsLeft) {
  ASSERT_TRUE(is_allocator);
  ASSERT_NE(openssl_poly1305(), nullptr);
  EVP_MAC_CTX* const context = EVP_MAC_CTX_new(openssl_poly1305());
  ASSERT_EQ(EVP_MAC_init(context, mac_key_.data(), mac_key_.size(), nullptr), 1);
  EVP_MAC_CTX_free(context);
  EXPECT_EQ(leaks, 1) << "if OpenSSL wipes by itself now, Poly1305's destructor can be simpler";
}

TEST_F(WipingTest, SealingAndOpeningLeaveNoKey) {
  seal_message(key_, nonce_, message_, message_, mac_);
  EXPECT_EQ(leaks, 0);
  ASSERT_TRUE(open_message(key_, nonce_, mac_, message_, message_));
  mac_[0] ^= std::byte{1};
  ASSERT_FALSE(open_message(key_, nonce_, mac_, message_, message_));
  EXPECT_EQ(leaks, 0);
}

TEST_F(WipingTest, AnAuthenticatorLeavesNoKey) {
  { const MessageAuthenticator unused(key_, nonce_); }
  EXPECT_EQ(leaks, 0) << "unused";
  {
    MessageAuthenticator unfinished(key_, nonce_);
    unfinished.update(message_);
  }
  EXPECT_EQ(leaks, 0) << "unfinished";
  {
    MessageAuthenticator finished(key_, nonce_);
    finished.update(message_);
    EXPECT_FALSE(finished.matches(mac_));
  }
  EXPECT_EQ(leaks, 0) << "finished";
}

}  // namespace
}  // namespace tzmark
