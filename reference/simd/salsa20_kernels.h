// Salsa20 with one block per vector lane, in AVX-512 and AVX2.
//
// Only additions, rotations and exclusive ors touch data, so the time does not depend on key or message. The constants
// are a template parameter, so that tests can compile the same source with a wrong one. REQUIRES: the CPU has the
// instructions.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tzmark::simd {

struct Salsa20Constants {
  static constexpr int kRotation1 = 7;
  static constexpr int kRotation2 = 9;
  static constexpr int kRotation3 = 13;
  static constexpr int kRotation4 = 18;
  static constexpr std::uint32_t kSigma[4] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};  // "expand 32-byte k"
};

// The bytes of key and nonce, read as the words of this machine; kernels in lanes exist for little-endian ones only.
struct Salsa20Input {
  std::uint32_t key[8];
  std::uint32_t nonce[2];
};

// Combines whole groups of blocks with the key stream that begins at the block, a count over 64 bits. in and out are
// equal or do not overlap.
using XorSalsa20Groups = void (*)(const Salsa20Input& input, std::uint64_t block, const unsigned char* in,
                                  unsigned char* out, std::size_t groups);

#if defined(__x86_64__)

// GCC's own intrinsics begin with an undefined vector, of which they use nothing.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

inline constexpr std::size_t kAvx2GroupBytes = std::size_t{8} * 64;
inline constexpr std::size_t kAvx512GroupBytes = std::size_t{16} * 64;

#define TZMARK_AVX512 __attribute__((target("avx512f")))
#define TZMARK_AVX512_INLINE __attribute__((target("avx512f"), always_inline)) inline
#define TZMARK_AVX2 __attribute__((target("avx2")))
#define TZMARK_AVX2_INLINE __attribute__((target("avx2"), always_inline)) inline

// What both kernels do with the state, in x0 to x15: an array would not stay in registers. Words 8 and 9 are the
// counter.
#define TZMARK_SALSA20_WORDS(function) \
  function(x0, Constants::kSigma[0]);  \
  function(x1, input.key[0]);          \
  function(x2, input.key[1]);          \
  function(x3, input.key[2]);          \
  function(x4, input.key[3]);          \
  function(x5, Constants::kSigma[1]);  \
  function(x6, input.nonce[0]);        \
  function(x7, input.nonce[1]);        \
  function(x10, Constants::kSigma[2]); \
  function(x11, input.key[4]);         \
  function(x12, input.key[5]);         \
  function(x13, input.key[6]);         \
  function(x14, input.key[7]);         \
  function(x15, Constants::kSigma[3])
#define TZMARK_SALSA20_ROUNDS               \
  for (int pair = 0; pair < 10; ++pair) {   \
    quarter<Constants>(x0, x4, x8, x12);    \
    quarter<Constants>(x5, x9, x13, x1);    \
    quarter<Constants>(x10, x14, x2, x6);   \
    quarter<Constants>(x15, x3, x7, x11);   \
    quarter<Constants>(x0, x1, x2, x3);     \
    quarter<Constants>(x5, x6, x7, x4);     \
    quarter<Constants>(x10, x11, x8, x9);   \
    quarter<Constants>(x15, x12, x13, x14); \
  }

// --- AVX-512 ---

template <int kBits>
TZMARK_AVX512_INLINE void mix(__m512i& to, const __m512i& a, const __m512i& b) {
  to = _mm512_xor_si512(to, _mm512_rol_epi32(_mm512_add_epi32(a, b), kBits));
}

template <class Constants>
TZMARK_AVX512_INLINE void quarter(__m512i& a, __m512i& b, __m512i& c, __m512i& d) {
  mix<Constants::kRotation1>(b, a, d);
  mix<Constants::kRotation2>(c, b, a);
  mix<Constants::kRotation3>(d, c, b);
  mix<Constants::kRotation4>(a, d, c);
}

// Sets a vector to a word in every lane, or adds it.
TZMARK_AVX512_INLINE void set_word(__m512i& x, std::uint32_t word) { x = _mm512_set1_epi32(static_cast<int>(word)); }
TZMARK_AVX512_INLINE void add_word(__m512i& x, std::uint32_t word) {
  x = _mm512_add_epi32(x, _mm512_set1_epi32(static_cast<int>(word)));
}

// Turns four words of 16 blocks into a quarter of each block: vector i gets those of blocks i, i + 4, i + 8 and i + 12.
TZMARK_AVX512_INLINE void transpose_words(__m512i& a, __m512i& b, __m512i& c, __m512i& d) {
  const __m512i low_ab = _mm512_unpacklo_epi32(a, b);
  const __m512i low_cd = _mm512_unpacklo_epi32(c, d);
  const __m512i high_ab = _mm512_unpackhi_epi32(a, b);
  const __m512i high_cd = _mm512_unpackhi_epi32(c, d);
  a = _mm512_unpacklo_epi64(low_ab, low_cd);
  b = _mm512_unpackhi_epi64(low_ab, low_cd);
  c = _mm512_unpacklo_epi64(high_ab, high_cd);
  d = _mm512_unpackhi_epi64(high_ab, high_cd);
}

TZMARK_AVX512_INLINE void xor_block(const unsigned char* in, unsigned char* out, std::size_t block,
                                    const __m512i& stream) {
  _mm512_storeu_si512(out + 64 * block, _mm512_xor_si512(stream, _mm512_loadu_si512(in + 64 * block)));
}

// Combines blocks first, first + 4, first + 8 and first + 12, given the four quarters of their key stream.
TZMARK_AVX512_INLINE void xor_four_blocks(const unsigned char* in, unsigned char* out, std::size_t first,
                                          const __m512i& a, const __m512i& b, const __m512i& c, const __m512i& d) {
  const __m512i even_ab = _mm512_shuffle_i32x4(a, b, 0x88);
  const __m512i odd_ab = _mm512_shuffle_i32x4(a, b, 0xdd);
  const __m512i even_cd = _mm512_shuffle_i32x4(c, d, 0x88);
  const __m512i odd_cd = _mm512_shuffle_i32x4(c, d, 0xdd);
  xor_block(in, out, first, _mm512_shuffle_i32x4(even_ab, even_cd, 0x88));
  xor_block(in, out, first + 4, _mm512_shuffle_i32x4(odd_ab, odd_cd, 0x88));
  xor_block(in, out, first + 8, _mm512_shuffle_i32x4(even_ab, even_cd, 0xdd));
  xor_block(in, out, first + 12, _mm512_shuffle_i32x4(odd_ab, odd_cd, 0xdd));
}

// A group is 16 blocks.
template <class Constants>
TZMARK_AVX512 void salsa20_xor_avx512(const Salsa20Input& input, std::uint64_t block, const unsigned char* in,
                                      unsigned char* out, std::size_t groups) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  for (; groups != 0; --groups, block += 16, in += kAvx512GroupBytes, out += kAvx512GroupBytes) {
    const __m512i first = _mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(block)));
    const __m512i low = _mm512_add_epi32(first, lanes);
    const __m512i high_of_first = _mm512_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(block >> 32)));
    const __m512i high =
        _mm512_mask_add_epi32(high_of_first, _mm512_cmplt_epu32_mask(low, first), high_of_first, _mm512_set1_epi32(1));
    __m512i x0, x1, x2, x3, x4, x5, x6, x7, x8 = low, x9 = high, x10, x11, x12, x13, x14, x15;
    TZMARK_SALSA20_WORDS(set_word);
    TZMARK_SALSA20_ROUNDS;
    TZMARK_SALSA20_WORDS(add_word);
    x8 = _mm512_add_epi32(x8, low);
    x9 = _mm512_add_epi32(x9, high);
    transpose_words(x0, x1, x2, x3);
    transpose_words(x4, x5, x6, x7);
    transpose_words(x8, x9, x10, x11);
    transpose_words(x12, x13, x14, x15);
    xor_four_blocks(in, out, 0, x0, x4, x8, x12);
    xor_four_blocks(in, out, 1, x1, x5, x9, x13);
    xor_four_blocks(in, out, 2, x2, x6, x10, x14);
    xor_four_blocks(in, out, 3, x3, x7, x11, x15);
  }
}

// --- AVX2: the same with 8 blocks, and a rotation is two shifts ---

template <int kBits>
TZMARK_AVX2_INLINE void mix(__m256i& to, const __m256i& a, const __m256i& b) {
  const __m256i sum = _mm256_add_epi32(a, b);
  to = _mm256_xor_si256(to, _mm256_slli_epi32(sum, kBits));
  to = _mm256_xor_si256(to, _mm256_srli_epi32(sum, 32 - kBits));
}

template <class Constants>
TZMARK_AVX2_INLINE void quarter(__m256i& a, __m256i& b, __m256i& c, __m256i& d) {
  mix<Constants::kRotation1>(b, a, d);
  mix<Constants::kRotation2>(c, b, a);
  mix<Constants::kRotation3>(d, c, b);
  mix<Constants::kRotation4>(a, d, c);
}

TZMARK_AVX2_INLINE void set_word(__m256i& x, std::uint32_t word) { x = _mm256_set1_epi32(static_cast<int>(word)); }
TZMARK_AVX2_INLINE void add_word(__m256i& x, std::uint32_t word) {
  x = _mm256_add_epi32(x, _mm256_set1_epi32(static_cast<int>(word)));
}

// Vector i gets the quarters of blocks i and i + 4.
TZMARK_AVX2_INLINE void transpose_words(__m256i& a, __m256i& b, __m256i& c, __m256i& d) {
  const __m256i low_ab = _mm256_unpacklo_epi32(a, b);
  const __m256i low_cd = _mm256_unpacklo_epi32(c, d);
  const __m256i high_ab = _mm256_unpackhi_epi32(a, b);
  const __m256i high_cd = _mm256_unpackhi_epi32(c, d);
  a = _mm256_unpacklo_epi64(low_ab, low_cd);
  b = _mm256_unpackhi_epi64(low_ab, low_cd);
  c = _mm256_unpacklo_epi64(high_ab, high_cd);
  d = _mm256_unpackhi_epi64(high_ab, high_cd);
}

TZMARK_AVX2_INLINE void xor_half_block(const unsigned char* in, unsigned char* out, std::size_t half,
                                       const __m256i& stream) {
  const __m256i data = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + 32 * half));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 32 * half), _mm256_xor_si256(stream, data));
}

TZMARK_AVX2_INLINE void xor_two_blocks(const unsigned char* in, unsigned char* out, std::size_t first, const __m256i& a,
                                       const __m256i& b, const __m256i& c, const __m256i& d) {
  xor_half_block(in, out, 2 * first, _mm256_permute2x128_si256(a, b, 0x20));
  xor_half_block(in, out, 2 * first + 1, _mm256_permute2x128_si256(c, d, 0x20));
  xor_half_block(in, out, 2 * first + 8, _mm256_permute2x128_si256(a, b, 0x31));
  xor_half_block(in, out, 2 * first + 9, _mm256_permute2x128_si256(c, d, 0x31));
}

// A group is 8 blocks.
template <class Constants>
TZMARK_AVX2 void salsa20_xor_avx2(const Salsa20Input& input, std::uint64_t block, const unsigned char* in,
                                  unsigned char* out, std::size_t groups) {
  const __m256i lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  const __m256i sign = _mm256_set1_epi32(static_cast<int>(0x80000000));
  for (; groups != 0; --groups, block += 8, in += kAvx2GroupBytes, out += kAvx2GroupBytes) {
    const __m256i first = _mm256_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(block)));
    const __m256i low = _mm256_add_epi32(first, lanes);
    // AVX2 compares signed words only. A carry is -1, so it is subtracted.
    const __m256i carry = _mm256_cmpgt_epi32(_mm256_xor_si256(first, sign), _mm256_xor_si256(low, sign));
    const __m256i high =
        _mm256_sub_epi32(_mm256_set1_epi32(static_cast<int>(static_cast<std::uint32_t>(block >> 32))), carry);
    __m256i x0, x1, x2, x3, x4, x5, x6, x7, x8 = low, x9 = high, x10, x11, x12, x13, x14, x15;
    TZMARK_SALSA20_WORDS(set_word);
    TZMARK_SALSA20_ROUNDS;
    TZMARK_SALSA20_WORDS(add_word);
    x8 = _mm256_add_epi32(x8, low);
    x9 = _mm256_add_epi32(x9, high);
    transpose_words(x0, x1, x2, x3);
    transpose_words(x4, x5, x6, x7);
    transpose_words(x8, x9, x10, x11);
    transpose_words(x12, x13, x14, x15);
    xor_two_blocks(in, out, 0, x0, x4, x8, x12);
    xor_two_blocks(in, out, 1, x1, x5, x9, x13);
    xor_two_blocks(in, out, 2, x2, x6, x10, x14);
    xor_two_blocks(in, out, 3, x3, x7, x11, x15);
  }
}

#undef TZMARK_SALSA20_WORDS
#undef TZMARK_SALSA20_ROUNDS
#undef TZMARK_AVX512
#undef TZMARK_AVX512_INLINE
#undef TZMARK_AVX2
#undef TZMARK_AVX2_INLINE

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#endif  // __x86_64__

}  // namespace tzmark::simd
