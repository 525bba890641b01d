// The arithmetic of Poly1305 at its edges, against libsodium and against numbers of many bits.
#include "gpu/poly1305.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include <array>
#include <random>
#include <string>
#include <vector>

namespace tzmark::gpu {
namespace {

using Key = std::array<std::uint32_t, 8>;

// As the kernel does it, but one block after the other.
std::array<unsigned char, 16> mac_of(const Key& key, const std::vector<unsigned char>& message) {
  const Limbs factor = poly1305_factor({key[0], key[1], key[2], key[3]});
  Limbs sum{};
  for (std::size_t at = 0; at < message.size(); at += 16) {
    unsigned char block[16] = {};
    const std::size_t bytes = std::min<std::size_t>(16, message.size() - at);
    std::memcpy(block, message.data() + at, bytes);
    if (bytes < 16) block[bytes] = 1;
    Words words;
    std::memcpy(&words, block, sizeof words);
    sum = multiply(add(sum, limbs_of(words, bytes == 16 ? kPoly1305WholeBlock : 0)), factor);
  }
  const Words mac = poly1305_mac(sum, {key[4], key[5], key[6], key[7]});
  std::array<unsigned char, 16> result;
  std::memcpy(result.data(), &mac, sizeof mac);
  return result;
}

std::array<unsigned char, 16> by_libsodium(const Key& key, const std::vector<unsigned char>& message) {
  std::array<unsigned char, 16> mac;
  crypto_onetimeauth(mac.data(), message.data(), message.size(), reinterpret_cast<const unsigned char*>(key.data()));
  return mac;
}

std::vector<unsigned char> bytes_of(const std::string& hex) {
  std::vector<unsigned char> bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    bytes.push_back(static_cast<unsigned char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

Key key_of(const std::string& hex) {
  Key key{};
  const auto bytes = bytes_of(hex);
  std::memcpy(key.data(), bytes.data(), bytes.size());
  return key;
}

__extension__ using Wide = unsigned __int128;

// A number modulo p, in plain binary, multiplied bit by bit.
struct Slow {
  std::uint64_t low = 0, middle = 0, high = 0;  // 2^0, 2^64, 2^128; below 2^131
};

Slow reduce(Slow n) {
  for (int turn = 0; turn < 2; ++turn) {
    Wide sum = static_cast<Wide>(n.low) + (n.high >> 2) * 5;
    n.high &= 3;
    n.low = static_cast<std::uint64_t>(sum);
    sum = (sum >> 64) + n.middle;
    n.middle = static_cast<std::uint64_t>(sum);
    n.high += static_cast<std::uint64_t>(sum >> 64);
  }
  const bool is_p_or_more = n.high == 3 && n.middle == UINT64_MAX && n.low >= UINT64_MAX - 4;
  if (is_p_or_more) n = {n.low - (UINT64_MAX - 4), 0, 0};
  return n;
}

Slow sum_of(const Slow& a, const Slow& b) {
  Slow sum;
  Wide wide = static_cast<Wide>(a.low) + b.low;
  sum.low = static_cast<std::uint64_t>(wide);
  wide = (wide >> 64) + a.middle + b.middle;
  sum.middle = static_cast<std::uint64_t>(wide);
  sum.high = a.high + b.high + static_cast<std::uint64_t>(wide >> 64);
  return reduce(sum);
}

Slow slow_of(const Limbs& limbs) {
  Slow result;
  for (int i = 4; i >= 0; --i) {
    for (int bit = 0; bit < 26; ++bit) result = sum_of(result, result);
    result = sum_of(result, {limbs.limb[i], 0, 0});
  }
  return result;
}

Slow product_of(const Slow& a, const Slow& b) {
  Slow product;
  for (int bit = 130; bit >= 0; --bit) {
    product = sum_of(product, product);
    const std::uint64_t word = bit >= 128 ? b.high : bit >= 64 ? b.middle : b.low;
    if ((word >> (bit % 64) & 1) != 0) product = sum_of(product, a);
  }
  return product;
}

void expect_equal(const Slow& a, const Slow& b) {
  EXPECT_EQ(a.low, b.low);
  EXPECT_EQ(a.middle, b.middle);
  EXPECT_EQ(a.high, b.high);
}

constexpr std::uint32_t kLoose = (1 << 26) + (1 << 10) - 1, kMask = kPoly1305LimbMask;
constexpr Limbs kAllMask = {{kMask, kMask, kMask, kMask, kMask}};
constexpr Limbs kAllLoose = {{kLoose, kLoose, kLoose, kLoose, kLoose}};
const std::vector<Limbs> kEdges = {{{0, 0, 0, 0, 0}},
                                   {{1, 0, 0, 0, 0}},
                                   kAllMask,
                                   {{kMask - 4, kMask, kMask, kMask, kMask}},
                                   {{kMask - 5, kMask, kMask, kMask, kMask}},
                                   kAllLoose,
                                   {{0, 0, 0, 0, kLoose}},
                                   {{kMask, kLoose, kMask, kMask, kMask}}};

TEST(Poly1305, MultipliesTheLargestLimbs) {
  for (const Limbs& edge : kEdges) {
    // A sum that a block or another sum was added to has limbs of twice the size.
    for (const Limbs& a : {edge, add(edge, kAllMask), add(edge, kAllLoose)}) {
      for (const Limbs& b : kEdges) {
        const Limbs product = multiply(a, b);
        expect_equal(slow_of(product), product_of(slow_of(a), slow_of(b)));
        for (const std::uint32_t limb : product.limb) EXPECT_LE(limb, kLoose);
      }
    }
  }
}

TEST(Poly1305, CarriesTheLargestSums) {
  const std::uint64_t largest = (std::uint64_t{1} << 59) - 1;
  const Limbs carried = carry({largest, largest, largest, largest, largest});
  Slow expected;
  for (int i = 0; i < 5; ++i) {
    for (int bit = 0; bit < 26; ++bit) expected = sum_of(expected, expected);
    expected = sum_of(expected, {largest, 0, 0});
  }
  expect_equal(slow_of(carried), expected);
  for (const std::uint32_t limb : carried.limb) EXPECT_LE(limb, kLoose);
}

// As the kernel adds up four blocks: a sum that a block was added to, and three blocks, times loose powers.
TEST(Poly1305, AddsUpTheLargestProducts) {
  const Limbs sum = add(kAllLoose, kAllMask);
  std::uint64_t wide[kPoly1305Limbs] = {};
  Slow expected;
  for (const Limbs& factor : {sum, kAllMask, kAllMask, kAllMask}) {
    add_product(wide, factor, kAllLoose);
    expected = sum_of(expected, product_of(slow_of(factor), slow_of(kAllLoose)));
  }
  for (unsigned i = 0; i < kPoly1305Limbs; ++i) wide[i] += kMask;
  for (const std::uint64_t limb : wide) EXPECT_LT(limb, std::uint64_t{1} << 59);
  expect_equal(slow_of(carry(wide)), sum_of(expected, slow_of(kAllMask)));
}

TEST(Poly1305, Powers) {
  for (const Limbs& edge : kEdges) {
    Slow expected{1, 0, 0};
    for (std::uint32_t exponent = 0; exponent < 40; ++exponent) {
      expect_equal(slow_of(power(edge, exponent)), expected);
      expected = product_of(expected, slow_of(edge));
    }
  }
}

TEST(Poly1305, ReducesWholly) {
  for (const Limbs& edge : kEdges) {
    const Words mac = poly1305_mac(edge, {0, 0, 0, 0});
    const Slow expected = slow_of(edge);
    EXPECT_EQ(mac.word[0] | std::uint64_t{mac.word[1]} << 32, expected.low);
    EXPECT_EQ(mac.word[2] | std::uint64_t{mac.word[3]} << 32, expected.middle);
  }
}

// Appendix A.3 of RFC 8439, those that bring numbers to the edges.
TEST(Poly1305, TestVectorsOfTheRfc) {
  const std::string zeros(32, '0'), ones(32, 'f');
  const struct {
    std::string key, message, mac;
  } vectors[] = {
      {"85d6be7857556d337f4452fe42d506a80103808afb0db2fd4abff6af4149f51b",
       "43727970746f6772617068696320466f72756d2052657365617263682047726f7570", "a8061dc1305136c6c22b8baf0c0127a9"},
      {zeros + zeros, zeros + zeros + zeros + zeros, zeros},
      {"02" + zeros.substr(2) + zeros, ones, "03" + zeros.substr(2)},
      {"02" + zeros.substr(2) + ones, "02" + zeros.substr(2), "03" + zeros.substr(2)},
      {"01" + zeros.substr(2) + zeros, ones + "f0" + ones.substr(2) + "11" + zeros.substr(2), "05" + zeros.substr(2)},
      {"01" + zeros.substr(2) + zeros, ones + "fbfefefefefefefefefefefefefefefe" + "01010101010101010101010101010101",
       zeros},
      {"02" + zeros.substr(2) + zeros, "fd" + ones.substr(2), "fa" + ones.substr(2)},
      {"01000000000000000400000000000000" + zeros,
       "e33594d7505e43b900000000000000003394d7505e4379cd01000000000000000000000000000000000000000000000001000000"
       "000000000000000000000000",
       "14000000000000005500000000000000"},
      {"01000000000000000400000000000000" + zeros,
       "e33594d7505e43b900000000000000003394d7505e4379cd010000000000000000000000000000000000000000000000",
       "13" + zeros.substr(2)},
  };
  for (const auto& vector : vectors) {
    const auto mac = mac_of(key_of(vector.key), bytes_of(vector.message));
    EXPECT_EQ(std::vector<unsigned char>(mac.begin(), mac.end()), bytes_of(vector.mac)) << vector.message;
    EXPECT_EQ(mac, by_libsodium(key_of(vector.key), bytes_of(vector.message)));
  }
}

TEST(Poly1305, ExtremeKeysAndMessages) {
  std::vector<Key> keys = {Key{}, {}, {}, {}};
  keys[1].fill(0xFFFFFFFF);
  keys[2] = {1, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF};
  keys[3] = {0, 0, 0, 0x0ffffffc, 0, 0, 0, 0};
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    Key key;
    for (std::uint32_t& word : key) word = static_cast<std::uint32_t>(random());
    keys.push_back(key);
  }
  for (const Key& key : keys) {
    for (const int value : {0x00, 0xFF, 0x5A}) {
      for (const std::size_t bytes : {0, 1, 15, 16, 17, 31, 32, 33, 1'000}) {
        const std::vector<unsigned char> message(bytes, static_cast<unsigned char>(value));
        EXPECT_EQ(mac_of(key, message), by_libsodium(key, message));
      }
    }
  }
}

}  // namespace
}  // namespace tzmark::gpu
