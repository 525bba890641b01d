// Compresses whole blocks of several SHA-256 messages at once on one core: with SHA-NI the rounds of 2 to 4 messages
// interleaved, with AVX2 or AVX-512 one message per 32-bit lane of the vectors.
//
// Every kernel is a template over its table of constants, so that tests can plant a wrong one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tzmark::simd {

inline constexpr std::size_t kSha256BlockBytes = 64;

using Sha256Constants = std::array<std::uint32_t, 64>;

alignas(64) inline constexpr Sha256Constants kSha256Constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

// Compresses `blocks` blocks, beginning at data[i], into the 8 words at states[i], for each lane i of the kernel. No
// two lanes share a state; data may be unaligned.
using CompressSha256 = void (*)(std::uint32_t* const* states, const std::byte* const* data, std::size_t blocks);

#if defined(__x86_64__)

#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own _mm512_undefined_epi32.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

#define TZMARK_SHA_NI __attribute__((target("sha,sse4.1")))
#define TZMARK_AVX2 __attribute__((target("avx2")))
#define TZMARK_AVX512 __attribute__((target("avx512f,avx512bw")))
// Helpers of one kernel, inlined without optimization too, since vectors are passed differently without the target.
#define TZMARK_INLINE __attribute__((always_inline)) inline

// SHA-NI: an instruction computes two rounds, with a latency of several times its throughput. Interleaved messages
// fill the gaps.
template <unsigned kLanes, const Sha256Constants& kConstants>
TZMARK_SHA_NI void compress_sha_ni(std::uint32_t* const* states, const std::byte* const* data, std::size_t blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  // The instructions want the words of the state as ABEF and CDGH.
  __m128i abef[kLanes], cdgh[kLanes];
#pragma GCC unroll 4
  for (unsigned i = 0; i < kLanes; ++i) {
    const auto* const state = reinterpret_cast<const __m128i*>(states[i]);
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(state + 1), 0x1b);
    abef[i] = _mm_alignr_epi8(cdab, efgh, 8);
    cdgh[i] = _mm_blend_epi16(efgh, cdab, 0xf0);
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    __m128i words[kLanes][4], abef_before[kLanes], cdgh_before[kLanes];
#pragma GCC unroll 4
    for (unsigned i = 0; i < kLanes; ++i) {
      abef_before[i] = abef[i];
      cdgh_before[i] = cdgh[i];
    }
#pragma GCC unroll 16
    for (unsigned group = 0; group < 16; ++group) {
      const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(&kConstants[group * 4]));
#pragma GCC unroll 4
      for (unsigned i = 0; i < kLanes; ++i) {
        __m128i& now = words[i][group % 4];
        if (group < 4) {
          const std::byte* const from = data[i] + block * kSha256BlockBytes + group * 16;
          now = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)), big_endian);
        } else {
          const __m128i last = words[i][(group + 3) % 4];
          const __m128i seventh = _mm_alignr_epi8(last, words[i][(group + 2) % 4], 4);
          now = _mm_sha256msg1_epu32(now, words[i][(group + 1) % 4]);
          now = _mm_sha256msg2_epu32(_mm_add_epi32(now, seventh), last);
        }
        const __m128i sum = _mm_add_epi32(now, constants);
        cdgh[i] = _mm_sha256rnds2_epu32(cdgh[i], abef[i], sum);
        abef[i] = _mm_sha256rnds2_epu32(abef[i], cdgh[i], _mm_shuffle_epi32(sum, 0x0e));
      }
    }
#pragma GCC unroll 4
    for (unsigned i = 0; i < kLanes; ++i) {
      abef[i] = _mm_add_epi32(abef[i], abef_before[i]);
      cdgh[i] = _mm_add_epi32(cdgh[i], cdgh_before[i]);
    }
  }
#pragma GCC unroll 4
  for (unsigned i = 0; i < kLanes; ++i) {
    auto* const state = reinterpret_cast<__m128i*>(states[i]);
    const __m128i feba = _mm_shuffle_epi32(abef[i], 0x1b);
    const __m128i dchg = _mm_shuffle_epi32(cdgh[i], 0xb1);
    _mm_storeu_si128(state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(state + 1, _mm_alignr_epi8(dchg, feba, 8));
  }
}

// Transposes the 8 x 8 words of rows, so that row i becomes word i of every row.
TZMARK_AVX2 TZMARK_INLINE void transpose_8(__m256i* rows) {
  __m256i pairs[8], quads[8];
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) {
    pairs[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
#pragma GCC unroll 2
  for (unsigned i = 0; i < 2; ++i) {
    quads[4 * i] = _mm256_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
    quads[4 * i + 1] = _mm256_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
    quads[4 * i + 2] = _mm256_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    quads[4 * i + 3] = _mm256_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
  }
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) {
    rows[i] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20);
    rows[i + 4] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31);
  }
}

template <int kBits>
TZMARK_AVX2 TZMARK_INLINE __m256i rotate_8(__m256i x) {
  return _mm256_or_si256(_mm256_srli_epi32(x, kBits), _mm256_slli_epi32(x, 32 - kBits));
}

TZMARK_AVX2 TZMARK_INLINE __m256i xor_8(__m256i x, __m256i y, __m256i z) {
  return _mm256_xor_si256(_mm256_xor_si256(x, y), z);
}

template <const Sha256Constants& kConstants>
TZMARK_AVX2 void compress_avx2(std::uint32_t* const* states, const std::byte* const* data, std::size_t blocks) {
  constexpr unsigned kLanes = 8;
  const __m256i big_endian =
      _mm256_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203, 0x0c0d0e0f08090a0b, 0x0405060700010203);
  __m256i state[8];
#pragma GCC unroll 8
  for (unsigned i = 0; i < kLanes; ++i) state[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(states[i]));
  transpose_8(state);
  for (std::size_t block = 0; block < blocks; ++block) {
    __m256i words[16];
#pragma GCC unroll 2
    for (unsigned half = 0; half < 2; ++half) {
#pragma GCC unroll 8
      for (unsigned i = 0; i < kLanes; ++i) {
        const std::byte* const from = data[i] + block * kSha256BlockBytes + half * 32;
        words[half * 8 + i] =
            _mm256_shuffle_epi8(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)), big_endian);
      }
      transpose_8(words + half * 8);
    }
    __m256i a = state[0], b = state[1], c = state[2], d = state[3];
    __m256i e = state[4], f = state[5], g = state[6], h = state[7];
#pragma GCC unroll 64
    for (unsigned round = 0; round < 64; ++round) {
      __m256i& word = words[round % 16];
      if (round >= 16) {
        const __m256i second = words[(round + 14) % 16], fifteenth = words[(round + 1) % 16];
        const __m256i s0 = xor_8(rotate_8<7>(fifteenth), rotate_8<18>(fifteenth), _mm256_srli_epi32(fifteenth, 3));
        const __m256i s1 = xor_8(rotate_8<17>(second), rotate_8<19>(second), _mm256_srli_epi32(second, 10));
        word = _mm256_add_epi32(_mm256_add_epi32(word, words[(round + 9) % 16]), _mm256_add_epi32(s0, s1));
      }
      const __m256i constant = _mm256_set1_epi32(static_cast<int>(kConstants[round]));
      const __m256i choice = _mm256_xor_si256(g, _mm256_and_si256(e, _mm256_xor_si256(f, g)));
      const __m256i majority = _mm256_or_si256(_mm256_and_si256(a, b), _mm256_and_si256(c, _mm256_or_si256(a, b)));
      const __m256i sum1 = xor_8(rotate_8<6>(e), rotate_8<11>(e), rotate_8<25>(e));
      const __m256i sum0 = xor_8(rotate_8<2>(a), rotate_8<13>(a), rotate_8<22>(a));
      const __m256i t1 =
          _mm256_add_epi32(_mm256_add_epi32(_mm256_add_epi32(h, _mm256_add_epi32(word, constant)), choice), sum1);
      h = g;
      g = f;
      f = e;
      e = _mm256_add_epi32(d, t1);
      d = c;
      c = b;
      b = a;
      a = _mm256_add_epi32(t1, _mm256_add_epi32(sum0, majority));
    }
    const __m256i after[8] = {a, b, c, d, e, f, g, h};
#pragma GCC unroll 8
    for (unsigned i = 0; i < 8; ++i) state[i] = _mm256_add_epi32(state[i], after[i]);
  }
  transpose_8(state);
#pragma GCC unroll 8
  for (unsigned i = 0; i < kLanes; ++i) _mm256_storeu_si256(reinterpret_cast<__m256i*>(states[i]), state[i]);
}

// Transposes the 16 x 16 words of rows.
TZMARK_AVX512 TZMARK_INLINE void transpose_16(__m512i* rows) {
  __m512i pairs[16], quads[16];
#pragma GCC unroll 8
  for (unsigned i = 0; i < 8; ++i) {
    pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) {
    quads[4 * i] = _mm512_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
    quads[4 * i + 1] = _mm512_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
    quads[4 * i + 2] = _mm512_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    quads[4 * i + 3] = _mm512_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
  }
  // Quarter q of quads[4 * i + c] now holds word 4 * q + c of rows 4 * i to 4 * i + 3.
#pragma GCC unroll 4
  for (unsigned c = 0; c < 4; ++c) {
    const __m512i even_low = _mm512_shuffle_i32x4(quads[c], quads[4 + c], 0x88);
    const __m512i odd_low = _mm512_shuffle_i32x4(quads[c], quads[4 + c], 0xdd);
    const __m512i even_high = _mm512_shuffle_i32x4(quads[8 + c], quads[12 + c], 0x88);
    const __m512i odd_high = _mm512_shuffle_i32x4(quads[8 + c], quads[12 + c], 0xdd);
    rows[c] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
    rows[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
    rows[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
    rows[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
  }
}

TZMARK_AVX512 TZMARK_INLINE __m512i xor_16(__m512i x, __m512i y, __m512i z) {
  return _mm512_ternarylogic_epi32(x, y, z, 0x96);
}

template <const Sha256Constants& kConstants>
TZMARK_AVX512 void compress_avx512(std::uint32_t* const* states, const std::byte* const* data, std::size_t blocks) {
  constexpr unsigned kLanes = 16;
  const __m512i big_endian = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
  // The 8 words of a state are half a row; the other half is not used.
  __m512i state[16];
#pragma GCC unroll 16
  for (unsigned i = 0; i < kLanes; ++i) {
    state[i] = _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(states[i])));
  }
  transpose_16(state);
  for (std::size_t block = 0; block < blocks; ++block) {
    __m512i words[16];
#pragma GCC unroll 16
    for (unsigned i = 0; i < kLanes; ++i) {
      words[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(data[i] + block * kSha256BlockBytes), big_endian);
    }
    transpose_16(words);
    __m512i a = state[0], b = state[1], c = state[2], d = state[3];
    __m512i e = state[4], f = state[5], g = state[6], h = state[7];
#pragma GCC unroll 64
    for (unsigned round = 0; round < 64; ++round) {
      __m512i& word = words[round % 16];
      if (round >= 16) {
        const __m512i second = words[(round + 14) % 16], fifteenth = words[(round + 1) % 16];
        const __m512i s0 =
            xor_16(_mm512_ror_epi32(fifteenth, 7), _mm512_ror_epi32(fifteenth, 18), _mm512_srli_epi32(fifteenth, 3));
        const __m512i s1 =
            xor_16(_mm512_ror_epi32(second, 17), _mm512_ror_epi32(second, 19), _mm512_srli_epi32(second, 10));
        word = _mm512_add_epi32(_mm512_add_epi32(word, words[(round + 9) % 16]), _mm512_add_epi32(s0, s1));
      }
      const __m512i constant = _mm512_set1_epi32(static_cast<int>(kConstants[round]));
      const __m512i choice = _mm512_ternarylogic_epi32(e, f, g, 0xca);
      const __m512i majority = _mm512_ternarylogic_epi32(a, b, c, 0xe8);
      const __m512i sum1 = xor_16(_mm512_ror_epi32(e, 6), _mm512_ror_epi32(e, 11), _mm512_ror_epi32(e, 25));
      const __m512i sum0 = xor_16(_mm512_ror_epi32(a, 2), _mm512_ror_epi32(a, 13), _mm512_ror_epi32(a, 22));
      const __m512i t1 =
          _mm512_add_epi32(_mm512_add_epi32(_mm512_add_epi32(h, _mm512_add_epi32(word, constant)), choice), sum1);
      h = g;
      g = f;
      f = e;
      e = _mm512_add_epi32(d, t1);
      d = c;
      c = b;
      b = a;
      a = _mm512_add_epi32(t1, _mm512_add_epi32(sum0, majority));
    }
    const __m512i after[8] = {a, b, c, d, e, f, g, h};
#pragma GCC unroll 8
    for (unsigned i = 0; i < 8; ++i) state[i] = _mm512_add_epi32(state[i], after[i]);
  }
  transpose_16(state);
#pragma GCC unroll 16
  for (unsigned i = 0; i < kLanes; ++i) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(states[i]), _mm512_castsi512_si256(state[i]));
  }
}

#undef TZMARK_SHA_NI
#undef TZMARK_AVX2
#undef TZMARK_AVX512
#undef TZMARK_INLINE
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#endif

}  // namespace tzmark::simd
