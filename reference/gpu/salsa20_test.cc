// The key stream is that of libsodium, beyond 2^32 blocks too.
#include "gpu/salsa20.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <array>
#include <random>

namespace tzmark::gpu {
namespace {

TEST(Salsa20, KeyStreamOfXSalsa20) {
  std::mt19937 random(1);
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{1}, (std::uint64_t{1} << 32) - 1,
                                     std::uint64_t{1} << 32, (std::uint64_t{7} << 32) + 5, UINT64_MAX}) {
    std::uint32_t key[8], subkey[8], nonce[6];
    for (std::uint32_t& word : key) word = static_cast<std::uint32_t>(random());
    for (std::uint32_t& word : nonce) word = static_cast<std::uint32_t>(random());
    hsalsa20(key, {nonce[0], nonce[1], nonce[2], nonce[3]}, kSalsa20Factor, subkey);
    std::array<std::uint32_t, kSalsa20Words> stream;
    std::uint32_t words[kSalsa20Words];
    salsa20_block(subkey, {nonce[4], nonce[5]}, number, kSalsa20Factor, words);
    std::copy(std::begin(words), std::end(words), stream.begin());
    std::array<std::uint32_t, kSalsa20Words> expected{};
    auto* const bytes = reinterpret_cast<unsigned char*>(expected.data());
    crypto_stream_xsalsa20_xor_ic(bytes, bytes, sizeof expected, reinterpret_cast<const unsigned char*>(nonce), number,
                                  reinterpret_cast<const unsigned char*>(key));
    EXPECT_EQ(stream, expected) << number;
  }
}

}  // namespace
}  // namespace tzmark::gpu
