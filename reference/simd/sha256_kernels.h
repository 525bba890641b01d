// Compresses whole blocks of several SHA-256 messages at once on one core: with the SHA-256 instructions of x86 or
// ARMv8 the rounds of 2 to 4 messages interleaved, with AVX2 or AVX-512 one message per 32-bit lane of vectors of 8 or
// 16 words.
//
// Every kernel is a template over its table of constants, so that tests can plant a wrong one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__) && (!defined(__clang__) || defined(__ARM_FEATURE_SHA2))
// Clang declares the instructions only where every function may use them.
#include <arm_neon.h>
#define TZMARK_HAS_SHA2_KERNELS 1
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
#define TZMARK_AVX512_HALF __attribute__((target("avx512f,avx512vl,avx2")))
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
  for (std::size_t i = 0; i < kLanes; ++i) {
    const auto* const state = reinterpret_cast<const __m128i*>(states[i]);
    const __m128i cdab = _mm_shuffle_epi32(_mm_loadu_si128(state), 0xb1);
    const __m128i efgh = _mm_shuffle_epi32(_mm_loadu_si128(state + 1), 0x1b);
    abef[i] = _mm_alignr_epi8(cdab, efgh, 8);
    cdgh[i] = _mm_blend_epi16(efgh, cdab, 0xf0);
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    __m128i words[kLanes][4], abef_before[kLanes], cdgh_before[kLanes];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kLanes; ++i) {
      abef_before[i] = abef[i];
      cdgh_before[i] = cdgh[i];
    }
#pragma GCC unroll 16
    for (std::size_t group = 0; group < 16; ++group) {
      const __m128i constants = _mm_load_si128(reinterpret_cast<const __m128i*>(&kConstants[group * 4]));
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kLanes; ++i) {
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
    for (std::size_t i = 0; i < kLanes; ++i) {
      abef[i] = _mm_add_epi32(abef[i], abef_before[i]);
      cdgh[i] = _mm_add_epi32(cdgh[i], cdgh_before[i]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kLanes; ++i) {
    auto* const state = reinterpret_cast<__m128i*>(states[i]);
    const __m128i feba = _mm_shuffle_epi32(abef[i], 0x1b);
    const __m128i dchg = _mm_shuffle_epi32(cdgh[i], 0xb1);
    _mm_storeu_si128(state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128(state + 1, _mm_alignr_epi8(dchg, feba, 8));
  }
}

// What the kernels with a message per lane do with vectors of 8 or 16 words.
struct Avx2 {
  using Vector = __m256i;
  static constexpr unsigned kLanes = 8;

  TZMARK_AVX2 TZMARK_INLINE static Vector add(Vector x, Vector y) { return _mm256_add_epi32(x, y); }
  TZMARK_AVX2 TZMARK_INLINE static Vector all(std::uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
  template <int kBits>
  TZMARK_AVX2 TZMARK_INLINE static Vector shift(Vector x) {
    return _mm256_srli_epi32(x, kBits);
  }
  template <int kBits>
  TZMARK_AVX2 TZMARK_INLINE static Vector rotate(Vector x) {
    return _mm256_or_si256(_mm256_srli_epi32(x, kBits), _mm256_slli_epi32(x, 32 - kBits));
  }
  TZMARK_AVX2 TZMARK_INLINE static Vector xor3(Vector x, Vector y, Vector z) {
    return _mm256_xor_si256(_mm256_xor_si256(x, y), z);
  }
  TZMARK_AVX2 TZMARK_INLINE static Vector choose(Vector x, Vector y, Vector z) {
    return _mm256_xor_si256(z, _mm256_and_si256(x, _mm256_xor_si256(y, z)));
  }
  TZMARK_AVX2 TZMARK_INLINE static Vector majority(Vector x, Vector y, Vector z) {
    return _mm256_or_si256(_mm256_and_si256(x, y), _mm256_and_si256(z, _mm256_or_si256(x, y)));
  }

  // Transposes 8 x 8 words, so that row i gets word i of every row.
  TZMARK_AVX2 TZMARK_INLINE static void transpose(Vector* rows) {
    Vector pairs[8], quads[8];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      pairs[2 * i] = _mm256_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
      pairs[2 * i + 1] = _mm256_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
    }
#pragma GCC unroll 2
    for (std::size_t i = 0; i < 2; ++i) {
      quads[4 * i] = _mm256_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
      quads[4 * i + 1] = _mm256_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
      quads[4 * i + 2] = _mm256_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
      quads[4 * i + 3] = _mm256_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      rows[i] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x20);
      rows[i + 4] = _mm256_permute2x128_si256(quads[i], quads[i + 4], 0x31);
    }
  }

  // Vector i of words gets word i of the block of every lane.
  TZMARK_AVX2 TZMARK_INLINE static void load_block(const std::byte* const* data, std::size_t offset, Vector* words) {
    const Vector big_endian =
        _mm256_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203, 0x0c0d0e0f08090a0b, 0x0405060700010203);
#pragma GCC unroll 2
    for (std::size_t half = 0; half < 2; ++half) {
#pragma GCC unroll 8
      for (std::size_t i = 0; i < kLanes; ++i) {
        const auto* const from = reinterpret_cast<const Vector*>(data[i] + offset + half * 32);
        words[half * 8 + i] = _mm256_shuffle_epi8(_mm256_loadu_si256(from), big_endian);
      }
      transpose(words + half * 8);
    }
  }

  // Vector i of state gets word i of the state of every lane. kLanes vectors are written.
  TZMARK_AVX2 TZMARK_INLINE static void load_state(std::uint32_t* const* states, Vector* state) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes; ++i) state[i] = _mm256_loadu_si256(reinterpret_cast<const Vector*>(states[i]));
    transpose(state);
  }
  TZMARK_AVX2 TZMARK_INLINE static void store_state(Vector* state, std::uint32_t* const* states) {
    transpose(state);
#pragma GCC unroll 8
    for (std::size_t i = 0; i < kLanes; ++i) _mm256_storeu_si256(reinterpret_cast<Vector*>(states[i]), state[i]);
  }
};

// Vectors of AVX2 with the instructions of AVX-512: for half as many messages at more than half the rate.
struct Avx512Half : Avx2 {
  template <int kBits>
  TZMARK_AVX512_HALF TZMARK_INLINE static Vector rotate(Vector x) {
    return _mm256_ror_epi32(x, kBits);
  }
  TZMARK_AVX512_HALF TZMARK_INLINE static Vector xor3(Vector x, Vector y, Vector z) {
    return _mm256_ternarylogic_epi32(x, y, z, 0x96);
  }
  TZMARK_AVX512_HALF TZMARK_INLINE static Vector choose(Vector x, Vector y, Vector z) {
    return _mm256_ternarylogic_epi32(x, y, z, 0xca);
  }
  TZMARK_AVX512_HALF TZMARK_INLINE static Vector majority(Vector x, Vector y, Vector z) {
    return _mm256_ternarylogic_epi32(x, y, z, 0xe8);
  }
};

struct Avx512 {
  using Vector = __m512i;
  static constexpr unsigned kLanes = 16;

  TZMARK_AVX512 TZMARK_INLINE static Vector add(Vector x, Vector y) { return _mm512_add_epi32(x, y); }
  TZMARK_AVX512 TZMARK_INLINE static Vector all(std::uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
  template <int kBits>
  TZMARK_AVX512 TZMARK_INLINE static Vector shift(Vector x) {
    return _mm512_srli_epi32(x, kBits);
  }
  template <int kBits>
  TZMARK_AVX512 TZMARK_INLINE static Vector rotate(Vector x) {
    return _mm512_ror_epi32(x, kBits);
  }
  TZMARK_AVX512 TZMARK_INLINE static Vector xor3(Vector x, Vector y, Vector z) {
    return _mm512_ternarylogic_epi32(x, y, z, 0x96);
  }
  TZMARK_AVX512 TZMARK_INLINE static Vector choose(Vector x, Vector y, Vector z) {
    return _mm512_ternarylogic_epi32(x, y, z, 0xca);
  }
  TZMARK_AVX512 TZMARK_INLINE static Vector majority(Vector x, Vector y, Vector z) {
    return _mm512_ternarylogic_epi32(x, y, z, 0xe8);
  }

  // Transposes 16 x 16 words.
  TZMARK_AVX512 TZMARK_INLINE static void transpose(Vector* rows) {
    Vector pairs[16], quads[16];
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      pairs[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
      pairs[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < 4; ++i) {
      quads[4 * i] = _mm512_unpacklo_epi64(pairs[4 * i], pairs[4 * i + 2]);
      quads[4 * i + 1] = _mm512_unpackhi_epi64(pairs[4 * i], pairs[4 * i + 2]);
      quads[4 * i + 2] = _mm512_unpacklo_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
      quads[4 * i + 3] = _mm512_unpackhi_epi64(pairs[4 * i + 1], pairs[4 * i + 3]);
    }
    // Quarter q of quads[4 * i + c] now holds word 4 * q + c of rows 4 * i to 4 * i + 3.
#pragma GCC unroll 4
    for (std::size_t c = 0; c < 4; ++c) {
      const Vector even_low = _mm512_shuffle_i32x4(quads[c], quads[4 + c], 0x88);
      const Vector odd_low = _mm512_shuffle_i32x4(quads[c], quads[4 + c], 0xdd);
      const Vector even_high = _mm512_shuffle_i32x4(quads[8 + c], quads[12 + c], 0x88);
      const Vector odd_high = _mm512_shuffle_i32x4(quads[8 + c], quads[12 + c], 0xdd);
      rows[c] = _mm512_shuffle_i32x4(even_low, even_high, 0x88);
      rows[4 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0x88);
      rows[8 + c] = _mm512_shuffle_i32x4(even_low, even_high, 0xdd);
      rows[12 + c] = _mm512_shuffle_i32x4(odd_low, odd_high, 0xdd);
    }
  }

  TZMARK_AVX512 TZMARK_INLINE static void load_block(const std::byte* const* data, std::size_t offset, Vector* words) {
    const Vector big_endian = _mm512_set4_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kLanes; ++i) {
      words[i] = _mm512_shuffle_epi8(_mm512_loadu_si512(data[i] + offset), big_endian);
    }
    transpose(words);
  }

  // A state is half a row of the transposition; the result of the other half is unused.
  TZMARK_AVX512 TZMARK_INLINE static void load_state(std::uint32_t* const* states, Vector* state) {
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kLanes; ++i) {
      state[i] = _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(states[i])));
    }
    transpose(state);
  }
  TZMARK_AVX512 TZMARK_INLINE static void store_state(Vector* state, std::uint32_t* const* states) {
    transpose(state);
#pragma GCC unroll 16
    for (std::size_t i = 0; i < kLanes; ++i) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(states[i]), _mm512_castsi512_si256(state[i]));
    }
  }
};

// The kernel over such vectors. A macro, because a template cannot take the target of a function from its arguments.
#define TZMARK_COMPRESS_LANES(Ops)                                                                                    \
  using Vector = Ops::Vector;                                                                                         \
  Vector state[Ops::kLanes];                                                                                          \
  Ops::load_state(states, state);                                                                                     \
  for (std::size_t block = 0; block < blocks; ++block) {                                                              \
    Vector words[16];                                                                                                 \
    Ops::load_block(data, block* kSha256BlockBytes, words);                                                           \
    Vector a = state[0], b = state[1], c = state[2], d = state[3];                                                    \
    Vector e = state[4], f = state[5], g = state[6], h = state[7];                                                    \
    _Pragma("GCC unroll 64") for (std::size_t round = 0; round < 64; ++round) {                                       \
      Vector& word = words[round % 16];                                                                               \
      if (round >= 16) {                                                                                              \
        const Vector second = words[(round + 14) % 16], fifteenth = words[(round + 1) % 16];                          \
        const Vector s0 = Ops::xor3(Ops::rotate<7>(fifteenth), Ops::rotate<18>(fifteenth), Ops::shift<3>(fifteenth)); \
        const Vector s1 = Ops::xor3(Ops::rotate<17>(second), Ops::rotate<19>(second), Ops::shift<10>(second));        \
        word = Ops::add(Ops::add(word, words[(round + 9) % 16]), Ops::add(s0, s1));                                   \
      }                                                                                                               \
      const Vector sum1 = Ops::xor3(Ops::rotate<6>(e), Ops::rotate<11>(e), Ops::rotate<25>(e));                       \
      const Vector sum0 = Ops::xor3(Ops::rotate<2>(a), Ops::rotate<13>(a), Ops::rotate<22>(a));                       \
      const Vector fed = Ops::add(h, Ops::add(word, Ops::all(kConstants[round])));                                    \
      const Vector t1 = Ops::add(Ops::add(fed, Ops::choose(e, f, g)), sum1);                                          \
      const Vector t2 = Ops::add(sum0, Ops::majority(a, b, c));                                                       \
      h = g;                                                                                                          \
      g = f;                                                                                                          \
      f = e;                                                                                                          \
      e = Ops::add(d, t1);                                                                                            \
      d = c;                                                                                                          \
      c = b;                                                                                                          \
      b = a;                                                                                                          \
      a = Ops::add(t1, t2);                                                                                           \
    }                                                                                                                 \
    const Vector after[8] = {a, b, c, d, e, f, g, h};                                                                 \
    _Pragma("GCC unroll 8") for (std::size_t i = 0; i < 8; ++i) state[i] = Ops::add(state[i], after[i]);              \
  }                                                                                                                   \
  Ops::store_state(state, states)

template <const Sha256Constants& kConstants>
TZMARK_AVX2 void compress_avx2(std::uint32_t* const* states, const std::byte* const* data, std::size_t blocks) {
  TZMARK_COMPRESS_LANES(Avx2);
}

template <const Sha256Constants& kConstants>
TZMARK_AVX512_HALF void compress_avx512_half(std::uint32_t* const* states, const std::byte* const* data,
                                             std::size_t blocks) {
  TZMARK_COMPRESS_LANES(Avx512Half);
}

template <const Sha256Constants& kConstants>
TZMARK_AVX512 void compress_avx512(std::uint32_t* const* states, const std::byte* const* data, std::size_t blocks) {
  TZMARK_COMPRESS_LANES(Avx512);
}

#undef TZMARK_COMPRESS_LANES
#undef TZMARK_SHA_NI
#undef TZMARK_AVX2
#undef TZMARK_AVX512
#undef TZMARK_AVX512_HALF
#undef TZMARK_INLINE
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

#elif defined(TZMARK_HAS_SHA2_KERNELS)

// The instructions of ARMv8 compute four rounds, and are interleaved as those of SHA-NI are. Compared with a plain
// SHA-256 under qemu-user 7.2; never run or timed on a CPU.
template <unsigned kLanes, const Sha256Constants& kConstants>
__attribute__((target("+crypto"))) void compress_sha2(std::uint32_t* const* states, const std::byte* const* data,
                                                      std::size_t blocks) {
  uint32x4_t abcd[kLanes], efgh[kLanes];
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kLanes; ++i) {
    abcd[i] = vld1q_u32(states[i]);
    efgh[i] = vld1q_u32(states[i] + 4);
  }
  for (std::size_t block = 0; block < blocks; ++block) {
    uint32x4_t words[kLanes][4], abcd_before[kLanes], efgh_before[kLanes];
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kLanes; ++i) {
      abcd_before[i] = abcd[i];
      efgh_before[i] = efgh[i];
    }
#pragma GCC unroll 16
    for (std::size_t group = 0; group < 16; ++group) {
      const uint32x4_t constants = vld1q_u32(&kConstants[group * 4]);
#pragma GCC unroll 4
      for (std::size_t i = 0; i < kLanes; ++i) {
        uint32x4_t& now = words[i][group % 4];
        if (group < 4) {
          const std::byte* const from = data[i] + block * kSha256BlockBytes + group * 16;
          now = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(reinterpret_cast<const std::uint8_t*>(from))));
        } else {
          now = vsha256su0q_u32(now, words[i][(group + 1) % 4]);
          now = vsha256su1q_u32(now, words[i][(group + 2) % 4], words[i][(group + 3) % 4]);
        }
        const uint32x4_t sum = vaddq_u32(now, constants);
        const uint32x4_t abcd_now = abcd[i];
        abcd[i] = vsha256hq_u32(abcd_now, efgh[i], sum);
        efgh[i] = vsha256h2q_u32(efgh[i], abcd_now, sum);
      }
    }
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kLanes; ++i) {
      abcd[i] = vaddq_u32(abcd[i], abcd_before[i]);
      efgh[i] = vaddq_u32(efgh[i], efgh_before[i]);
    }
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < kLanes; ++i) {
    vst1q_u32(states[i], abcd[i]);
    vst1q_u32(states[i] + 4, efgh[i]);
  }
}
#endif

}  // namespace tzmark::simd
