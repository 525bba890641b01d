// Salsa20 and HSalsa20 as in libsodium's XSalsa20, for kernels: computed in registers.
#pragma once

#include "gpu/kernel.h"

namespace tzmark::gpu {

constexpr unsigned kSalsa20Words = 16;
constexpr unsigned kSalsa20Bytes = 4 * kSalsa20Words;

// Rotating by 7 is multiplying by 2^7 and combining the two words of the product. A GPU has a multiplier besides the
// unit that shifts, so that a quarter of the rotations take turns with the others; as long as the compiler does not
// know the factor, which therefore is an argument.
constexpr std::uint32_t kSalsa20Factor = 1 << 7;

TZMARK_DEVICE inline std::uint32_t rotate_left(std::uint32_t value, unsigned bits) {
  return shift_pair(value, value, 32 - bits);
}

TZMARK_DEVICE inline void salsa20_quarter(std::uint32_t& a, std::uint32_t& b, std::uint32_t& c, std::uint32_t& d,
                                          std::uint32_t factor) {
  const std::uint64_t product = std::uint64_t{a + d} * factor;
  b ^= static_cast<std::uint32_t>(product) | static_cast<std::uint32_t>(product >> 32);
  c ^= rotate_left(b + a, 9);
  d ^= rotate_left(c + b, 13);
  a ^= rotate_left(d + c, 18);
}

// Returns the initial state for a key and 16 bytes of input.
TZMARK_DEVICE inline void salsa20_state(const std::uint32_t (&key)[8], const std::uint32_t (&input)[4],
                                        std::uint32_t (&state)[kSalsa20Words]) {
  state[0] = 0x61707865;  // "expand 32-byte k"
  state[5] = 0x3320646e;
  state[10] = 0x79622d32;
  state[15] = 0x6b206574;
  for (unsigned i = 0; i < 4; ++i) {
    state[1 + i] = key[i];
    state[6 + i] = input[i];
    state[11 + i] = key[4 + i];
  }
}

TZMARK_DEVICE inline void salsa20_rounds(std::uint32_t (&x)[kSalsa20Words], std::uint32_t factor) {
  for (unsigned pair = 0; pair < 10; ++pair) {
    salsa20_quarter(x[0], x[4], x[8], x[12], factor);
    salsa20_quarter(x[5], x[9], x[13], x[1], factor);
    salsa20_quarter(x[10], x[14], x[2], x[6], factor);
    salsa20_quarter(x[15], x[3], x[7], x[11], factor);
    salsa20_quarter(x[0], x[1], x[2], x[3], factor);
    salsa20_quarter(x[5], x[6], x[7], x[4], factor);
    salsa20_quarter(x[10], x[11], x[8], x[9], factor);
    salsa20_quarter(x[15], x[12], x[13], x[14], factor);
  }
}

// factor: kSalsa20Factor, here and below.

// Returns the Salsa20 key that XSalsa20 derives from its key and the first 16 bytes of its nonce.
TZMARK_DEVICE inline void hsalsa20(const std::uint32_t (&key)[8], const std::uint32_t (&input)[4], std::uint32_t factor,
                                   std::uint32_t (&subkey)[8]) {
  std::uint32_t x[kSalsa20Words];
  salsa20_state(key, input, x);
  salsa20_rounds(x, factor);
  for (unsigned i = 0; i < 4; ++i) {
    subkey[i] = x[5 * i];
    subkey[4 + i] = x[6 + i];
  }
}

// Returns a block of the key stream. nonce: the last 8 bytes of that of XSalsa20.
TZMARK_DEVICE inline void salsa20_block(const std::uint32_t (&key)[8], const std::uint32_t (&nonce)[2],
                                        std::uint64_t number, std::uint32_t factor,
                                        std::uint32_t (&stream)[kSalsa20Words]) {
  const std::uint32_t input[4] = {nonce[0], nonce[1], static_cast<std::uint32_t>(number),
                                  static_cast<std::uint32_t>(number >> 32)};
  std::uint32_t start[kSalsa20Words];
  salsa20_state(key, input, start);
  for (unsigned i = 0; i < kSalsa20Words; ++i) stream[i] = start[i];
  salsa20_rounds(stream, factor);
  for (unsigned i = 0; i < kSalsa20Words; ++i) stream[i] += start[i];
}

}  // namespace tzmark::gpu
