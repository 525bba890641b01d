// The arithmetic of Poly1305: numbers modulo p = 2^130 - 5, in five limbs of 26 bits.
//
// A number is "loose" if its limbs are below 2^26 + 2^10, as after a multiplication. A loose number plus a message
// block, or plus a loose number, has limbs below 2^27 + 2^11, and can be multiplied by a loose one: the sum of five
// 64-bit products is below 25 * (2^27 + 2^11) * (2^26 + 2^10) < 2^58. With the products of three blocks and loose
// numbers it is below 2^59.
#pragma once

#include "gpu/kernel.h"

namespace tzmark::gpu {

constexpr unsigned kPoly1305Limbs = 5;
constexpr unsigned kPoly1305LimbBits = 26;
constexpr std::uint32_t kPoly1305LimbMask = (std::uint32_t{1} << kPoly1305LimbBits) - 1;
constexpr unsigned kPoly1305BlockBytes = sizeof(Words);

struct Limbs {
  std::uint32_t limb[kPoly1305Limbs];
};

// Returns the 128-bit number of the words, plus one more bit. high: 2^24 for that bit at 2^128, or 0.
TZMARK_DEVICE inline Limbs limbs_of(const Words& words, std::uint32_t high) {
  const std::uint32_t(&w)[4] = words.word;
  return {{w[0] & kPoly1305LimbMask, shift_pair(w[0], w[1], 26) & kPoly1305LimbMask,
           shift_pair(w[1], w[2], 20) & kPoly1305LimbMask, shift_pair(w[2], w[3], 14) & kPoly1305LimbMask,
           (w[3] >> 8) | high}};
}
constexpr std::uint32_t kPoly1305WholeBlock = 1 << 24;

// Returns the factor r, from the first half of the key.
TZMARK_DEVICE inline Limbs poly1305_factor(const std::uint32_t (&key)[4]) {
  return limbs_of({{key[0] & 0x0fffffff, key[1] & 0x0ffffffc, key[2] & 0x0ffffffc, key[3] & 0x0ffffffc}}, 0);
}

TZMARK_DEVICE inline Limbs add(const Limbs& a, const Limbs& b) {
  Limbs sum;
  for (unsigned i = 0; i < kPoly1305Limbs; ++i) sum.limb[i] = a.limb[i] + b.limb[i];
  return sum;
}

// Returns a loose number, from limbs of up to 59 bits.
TZMARK_DEVICE inline Limbs carry(const std::uint64_t (&wide)[kPoly1305Limbs]) {
  Limbs result;
  std::uint64_t over = 0;
  for (unsigned i = 0; i < kPoly1305Limbs; ++i) {
    const std::uint64_t value = wide[i] + over;
    result.limb[i] = static_cast<std::uint32_t>(value) & kPoly1305LimbMask;
    over = value >> kPoly1305LimbBits;
  }
  // 2^130 = 5 modulo p. over is below 2^33 + 2^8, so the carry is below 2^10.
  const std::uint64_t lowest = result.limb[0] + over * 5;
  result.limb[0] = static_cast<std::uint32_t>(lowest) & kPoly1305LimbMask;
  result.limb[1] += static_cast<std::uint32_t>(lowest >> kPoly1305LimbBits);
  return result;
}

// Adds a product to wide limbs. REQUIRES: a is loose, or loose plus a block; b is loose.
TZMARK_DEVICE inline void add_product(std::uint64_t (&wide)[kPoly1305Limbs], const Limbs& a, const Limbs& b) {
  TZMARK_UNROLL for (unsigned i = 0; i < kPoly1305Limbs; ++i) {
    TZMARK_UNROLL for (unsigned j = 0; j < kPoly1305Limbs; ++j) {
      // Products at 2^130 and above wrap around with a factor of 5.
      const std::uint32_t factor = j <= i ? b.limb[i - j] : 5 * b.limb[kPoly1305Limbs + i - j];
      wide[i] += std::uint64_t{a.limb[j]} * factor;
    }
  }
}

// Returns a loose product. REQUIRES: as add_product.
TZMARK_DEVICE inline Limbs multiply(const Limbs& a, const Limbs& b) {
  std::uint64_t wide[kPoly1305Limbs] = {};
  add_product(wide, a, b);
  return carry(wide);
}

// Returns a loose number, from limbs of 32 bits.
TZMARK_DEVICE inline Limbs carry(const Limbs& number) {
  std::uint64_t wide[kPoly1305Limbs];
  for (unsigned i = 0; i < kPoly1305Limbs; ++i) wide[i] = number.limb[i];
  return carry(wide);
}

// Returns a loose power. REQUIRES: the base is loose.
TZMARK_DEVICE inline Limbs power(Limbs base, std::uint32_t exponent) {
  Limbs result{{1, 0, 0, 0, 0}};
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = multiply(result, base);
    base = multiply(base, base);
  }
  return result;
}

// Returns the MAC: the number modulo p, plus the second half of the key, modulo 2^128. REQUIRES: the number is loose.
TZMARK_DEVICE inline Words poly1305_mac(const Limbs& loose, const std::uint32_t (&key)[4]) {
  Limbs h = loose;
  // Two rounds: the first may carry 5 into the lowest limb, after which the second leaves no carry.
  for (unsigned turn = 0; turn < 2; ++turn) {
    std::uint32_t over = 0;
    for (unsigned i = 0; i < kPoly1305Limbs; ++i) {
      h.limb[i] += over;
      over = h.limb[i] >> kPoly1305LimbBits;
      h.limb[i] &= kPoly1305LimbMask;
    }
    h.limb[0] += over * 5;
  }
  // Now every limb has 26 bits, so h < 2^130; h - p is h + 5 without the bit of 2^130.
  Limbs less;
  std::uint32_t over = 5;
  for (unsigned i = 0; i < kPoly1305Limbs; ++i) {
    less.limb[i] = h.limb[i] + over;
    over = less.limb[i] >> kPoly1305LimbBits;
    less.limb[i] &= kPoly1305LimbMask;
  }
  // Selects without a branch, since the choice depends on the key.
  const std::uint32_t take_less = 0 - over;
  for (unsigned i = 0; i < kPoly1305Limbs; ++i) {
    h.limb[i] = (less.limb[i] & take_less) | (h.limb[i] & ~take_less);
  }
  const std::uint32_t words[4] = {h.limb[0] | h.limb[1] << 26, h.limb[1] >> 6 | h.limb[2] << 20,
                                  h.limb[2] >> 12 | h.limb[3] << 14, h.limb[3] >> 18 | h.limb[4] << 8};
  Words mac;
  std::uint64_t sum = 0;
  for (unsigned i = 0; i < 4; ++i) {
    sum += std::uint64_t{words[i]} + key[i];
    mac.word[i] = static_cast<std::uint32_t>(sum);
    sum >>= 32;
  }
  return mac;
}

}  // namespace tzmark::gpu
